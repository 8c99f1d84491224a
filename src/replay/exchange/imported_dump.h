#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/dump_place.h"
#include "format/dump_writer.h"
#include "format/rollout_data.h"
#include "src/replay/exchange/import.h"
#include "src/replay/launch/provenance.h"

namespace rlreplay::replay {

/// The group that a unit's path names: `3` of `rollout/3.h5`, `3-0` of `train/3-0/rank1.h5`.
[[nodiscard]] std::string group_of_unit(const std::string& unit);

/// The dump that an import makes, unit by unit, and what is reported of it.
class ImportedDump {
 public:
  explicit ImportedDump(const ImportOptions& options);

  /// Says whose files the dump is made of, and how many ranks write its steps. It counts only
  /// before the first unit.
  void made_by(const std::string& vendor, int64_t ranks = 1);

  /// Notes that a file gives this unit. Errors: kUsage where another file has given it.
  void claim(const std::string& unit, const std::string& path);
  void append(const std::string& unit, const std::vector<format::Dataset>& datasets);

  /// Adds what was found of a file to the report.
  void note(const std::string& path, const std::vector<foreign::Problem>& problems);
  /// Counts a rollout with its samples and tokens in the report.
  void count(int64_t rollout, const format::RolloutData& data);
  /// Notes samples of a rollout that a step trains on; others are reported at the end.
  void add_trained(int64_t rollout, const std::vector<uint64_t>& samples);
  ImportReport& report() { return report_; }

  /// Samples of a rollout that were made from more than their tokens.
  void add_inputs(int64_t rollout, std::set<uint64_t> samples);
  /// What computes log-probabilities from tokens must not take these samples (check_inputs).
  void append_inputs();

  /// Notes which rollouts, steps and samples of steps are not there, and seals it. Without this
  /// call nothing is left behind.
  [[nodiscard]] ImportReport finish();

 private:
  void note_gaps();
  [[nodiscard]] bool has_replaced_ids(int64_t rollout) const;
  void note_untrained();
  format::DumpWriter& writer();

  const ImportOptions& options_;
  format::DumpPlace place_;
  std::optional<format::DumpWriter> writer_;
  std::string vendor_;
  int64_t ranks_ = 1;
  std::map<int64_t, std::set<uint64_t>> with_inputs_;  // sample ids, by rollout
  std::map<int64_t, std::vector<uint64_t>> kept_;      // those not taken out, by rollout
  std::map<int64_t, std::vector<uint64_t>> trained_;   // those of its steps, by rollout
  ImportReport report_;
  Provenance provenance_;
};

}  // namespace rlreplay::replay

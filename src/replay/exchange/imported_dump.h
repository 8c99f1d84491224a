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

/// Of `rollout/3.h5` and `train/3-0/rank1.h5`: `3` and `3-0`.
std::string group_of_unit(const std::string& unit);

/// The dump that an import makes, unit by unit, and what is reported of it.
class ImportedDump {
 public:
  explicit ImportedDump(const ImportOptions& options);

  /// Whose files it is made of, and how many ranks write its steps. Counts before the first unit.
  void made_by(const std::string& vendor, int64_t ranks = 1);

  /// Errors: kUsage where another file has given this unit.
  void claim(const std::string& unit, const std::string& path);
  void append(const std::string& unit, const std::vector<format::Dataset>& datasets);

  /// What was found of a file, in the report.
  void note(const std::string& path, const std::vector<foreign::Problem>& problems);
  /// A rollout more, in the report.
  void count(int64_t rollout, const format::RolloutData& data);
  /// Samples of a rollout that a step trains on.
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

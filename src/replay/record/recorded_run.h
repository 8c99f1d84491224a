#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/sample_columns.h"
#include "src/base/parameters.h"
#include "src/base/step_id.h"
#include "src/events/event_record.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/rank_scalars.h"

namespace rlreplay::replay {

/// A dump of a run, as replays and comparisons read it.
class RecordedRun {
 public:
  /// Reads the dump in a folder. Errors: FormatError.
  explicit RecordedRun(const std::string& path) : RecordedRun(path, path) {}
  /// Reads the dump in `folder`, which the user knows as `path`. Errors: FormatError.
  RecordedRun(const std::string& folder, std::string path);

  /// Leaves out, from here on, rollouts, steps and states that are not of `--steps`; an empty text
  /// leaves all. Errors: kUsage.
  void keep_steps(const std::string& text);
  /// Whether anything was left out.
  [[nodiscard]] bool is_part() const { return is_part_; }

  /// The path as the user knows it: nothing is opened by it.
  const std::string& path() const { return path_; }
  const format::DumpReader& dump() const { return dump_; }
  /// The options and the model of the run. Errors: those of read_dump_meta.
  RecordedConfig config() const { return read_dump_meta(dump_.meta(), path_); }
  /// config(), or nothing for a dump that names no model that this version knows.
  /// Errors: kCorrupt.
  [[nodiscard]] std::optional<RecordedConfig> find_config() const;

  /// Whether it was made from what another program wrote. Errors: as imported_from.
  [[nodiscard]] bool is_imported() const { return imported_from(dump_.meta(), path_).has_value(); }

  /// The rollouts and the steps that the dump holds, in order, but those that keep_steps left out.
  const std::vector<int64_t>& rollouts() const { return rollouts_; }
  const std::vector<StepId>& steps() const { return steps_; }
  /// The steps before which the state was recorded, in order.
  const std::vector<StepId>& states() const { return states_; }
  [[nodiscard]] bool has_state(const StepId& step) const;

  /// The named numbers of a step, of all ranks.
  StepScalars scalars(const StepId& step) const;
  /// The events of a rollout, and of a step; empty where none were recorded. Errors: those of
  /// open_events and read_events.
  engine::StepEvents rollout_events(int64_t rollout) const;
  engine::StepEvents step_events(const StepId& step) const;

  void load_weights(const StepId& step, const ParameterTable& parameters,
                    std::span<float> weights) const;

 private:
  engine::StepEvents events(const char* kind, const std::string& group, const StepId& step) const;

  std::string path_;
  format::DumpReader dump_;
  std::vector<int64_t> rollouts_;
  std::vector<StepId> steps_, states_;
  bool is_part_ = false;
};

}  // namespace rlreplay::replay

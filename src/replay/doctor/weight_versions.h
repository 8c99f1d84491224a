#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/base/step_id.h"
#include "src/base/temporary_folder.h"
#include "src/replay/doctor/weight_files.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// What a checkpoint is held against, as the user names it.
struct WeightReference {
  std::string path;                  // a checkpoint, or a dump that holds weights
  std::string step;                  // of a dump: the weights before it; empty: its last
  std::vector<std::string> earlier;  // checkpoints that are older, the newest first
};

/// The weights that a checkpoint should hold, and those that it may hold instead: of a dump those
/// before each earlier step. A dump's are unpacked into a temporary folder, at most one version
/// beside what is expected.
class WeightVersions {
 public:
  /// Opens the reference. Errors: as WeightFiles::open; kCorrupt for a checkpoint that is not
  /// whole; kUsage for a step of what is no dump; kIncomplete for a dump without such weights.
  explicit WeightVersions(const WeightReference& reference);

  const WeightFiles& expected() const { return expected_; }
  /// The step before which a dump has them.
  [[nodiscard]] std::optional<StepId> step() const;

  /// How many others there are, the newest first.
  size_t earlier() const { return sources_.size() - 1; }
  /// "base/", or "before step 3.0".
  [[nodiscard]] std::string earlier_name(size_t number) const;
  /// Its tensors; of a dump those of these names alone, until the next are opened. Errors: as the
  /// constructor.
  [[nodiscard]] WeightFiles open_earlier(size_t number, const std::set<std::string>& names);

 private:
  struct Source {
    std::string path;
    std::optional<StepId> step;  // of the dump
  };
  void add_dump(const WeightReference& reference);
  [[nodiscard]] WeightFiles unpack(const StepId& step, const std::set<std::string>& names,
                                   const std::string& folder) const;

  std::optional<RecordedRun> dump_;
  std::optional<TemporaryFolder> folder_;  // of what is unpacked
  std::vector<Source> sources_;            // what is expected, then the others
  WeightFiles expected_;
};

}  // namespace rlreplay::replay

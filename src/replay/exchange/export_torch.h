#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "src/replay/exchange/cell.h"

namespace rlreplay::replay {

/// Which samples are exported: all where both sets are absent. A sample brings the whole of its
/// group along, so that what was computed over a group can be computed again.
struct Selection {
  std::optional<std::set<uint64_t>> samples;
  std::optional<std::set<uint64_t>> groups;

  bool is_all() const { return !samples && !groups; }
};

/// The ids of a rollout's samples that a selection takes.
std::set<uint64_t> selected_samples(const format::RolloutData& data, const Selection& selection);

/// The rollout and training data of one rollout, as places name them.
NativeData native_data(const format::DumpReader& dump, int64_t rollout_id);

/// Writes the files of slime or Miles below `folder`: those that were imported, as they were; of
/// rollouts that this program made, `rollout_data/ID.pt`, and for slime `train_data/ID.pt`. With a
/// selection, of what was imported rollouts only. Where `output` ends with .pt, it is that of the
/// only rollout. Returns the paths.
/// Errors: kUsage where the dump holds nothing for that framework, or several rollouts for one
/// file; kEnvironment.
std::vector<std::string> export_torch(const format::DumpReader& dump, const std::string& vendor,
                                      const std::string& output, const Selection& selection);

}  // namespace rlreplay::replay

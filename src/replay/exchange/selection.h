#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// Which samples are wanted: all where both sets are absent. A sample brings the whole of its group
/// and of its trajectory along, so that what was computed over these can be computed again.
struct Selection {
  std::optional<std::set<uint64_t>> samples;
  std::optional<std::set<uint64_t>> groups;

  [[nodiscard]] bool is_all() const { return !samples && !groups; }
};

/// The samples of each rollout that a selection takes; rollouts without any are not in it.
using ChosenSamples = std::map<std::string, std::set<uint64_t>>;

/// The samples that a selection takes of a dump, with those that they bring along; nothing where it
/// takes all. `name`: the dump's, for errors.
/// Errors: kUsage for a sample or group that the dump has not, with those that it has; FormatError.
[[nodiscard]] std::optional<ChosenSamples> choose_samples(const format::DumpReader& dump,
                                                          const Selection& selection,
                                                          const std::string& name);

}  // namespace rlreplay::replay

#pragma once

#include <string>

#include "format/dump_reader.h"
#include "src/replay/inspect/show_dump.h"

namespace rlreplay::replay {

/// A line a sample of all rollouts, or of `options.rollout`, in the order that `options.sort` says:
/// as it is recorded, by ascending reward, or the longest response first.
[[nodiscard]] std::string show_samples(const format::DumpReader& dump, const ShowOptions& options);

}  // namespace rlreplay::replay

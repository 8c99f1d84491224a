#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// One event of a step: `3.0/backward/1/down/dx`.
struct EventQuestion {
  std::string event;
  std::optional<int64_t> rank;     // the first that has events where absent
  std::optional<uint64_t> sample;  // of an event with a row a token: its rows alone
  bool json = false;
};

/// Place, operation, shape, digest, statistics, and the first values where they were recorded.
/// Errors: kUsage where the dump has no such step, event, rank or sample, with what it has.
[[nodiscard]] std::string show_event(const RecordedRun& run, const EventQuestion& question);

}  // namespace rlreplay::replay

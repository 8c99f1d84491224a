#pragma once

#include <cstdint>
#include <vector>

namespace rlreplay::engine {

/// What a stage does next with a micro-batch.
struct StageAction {
  bool forward = true;
  int64_t micro_batch = 0;
  friend bool operator==(const StageAction&, const StageAction&) = default;
};

/// One forward, one backward (1F1B): a stage that `after` others follow begins with as many
/// forwards, then takes turns, and ends with the backwards that are left. So no stage holds more
/// micro-batches than there are stages, and one alone takes each through at once. No sum depends on
/// it.
std::vector<StageAction> make_schedule(int64_t after, int64_t micro_batches);

}  // namespace rlreplay::engine

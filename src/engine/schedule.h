#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rlreplay::engine {

/// Samples [first, first + count) of a batch.
struct MicroBatch {
  size_t first = 0;
  size_t count = 0;
};

/// `size` samples each, the last what is left; 0: all at once.
[[nodiscard]] std::vector<MicroBatch> micro_batches(size_t samples, int64_t size);

/// What a stage does next with a micro-batch.
struct StageAction {
  bool forward = true;
  int64_t micro_batch = 0;
  friend bool operator==(const StageAction&, const StageAction&) = default;
};

/// One forward, one backward (1F1B): a stage that `after` others follow begins with as many
/// forwards, then takes turns, and ends with the backwards that are left. No stage holds more
/// micro-batches than there are stages; one alone takes each through at once. No sum depends on it.
/// Source: Narayanan et al., Efficient large-scale language model training on GPU clusters (2021).
[[nodiscard]] std::vector<StageAction> make_schedule(int64_t after, int64_t micro_batches);

}  // namespace rlreplay::engine

#include "src/engine/schedule.h"

#include <algorithm>

namespace rlreplay::engine {

std::vector<MicroBatch> micro_batches(size_t samples, int64_t size) {
  const size_t step = size > 0 ? static_cast<size_t>(size) : std::max<size_t>(1, samples);
  std::vector<MicroBatch> out;
  for (size_t first = 0; first < samples; first += step) {
    out.push_back({first, std::min(step, samples - first)});
  }
  return out;
}

std::vector<StageAction> make_schedule(int64_t after, int64_t micro_batches) {
  std::vector<StageAction> out;
  int64_t forward = 0;
  for (; forward < std::min(after, micro_batches); ++forward) out.push_back({true, forward});
  for (int64_t backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) out.push_back({true, forward++});
    out.push_back({false, backward});
  }
  return out;
}

}  // namespace rlreplay::engine

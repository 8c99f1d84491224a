#include "bench/bench.h"

namespace rlreplay::bench {

Buffer<float> numbers(int64_t count, uint64_t seed) {
  Buffer<float> out(static_cast<size_t>(count));
  uint64_t state = seed * 2 + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out[static_cast<size_t>(i)] =
        static_cast<float>(static_cast<int32_t>(state >> 40) - (1 << 23)) * 0x1p-23f;
  }
  return out;
}

}  // namespace rlreplay::bench

#include "src/replay/run/memory_plan.h"

#include <catch2/catch.hpp>

using namespace rlreplay;
using namespace rlreplay::replay;

namespace {

ModelConfig model() {
  ModelConfig out;
  out.hidden = 256;
  out.intermediate = 768;
  out.layers = 4;
  out.heads = 8;
  out.kv_heads = 4;
  out.head_dim = 32;
  out.vocab = 8000;
  out.max_positions = 4096;
  return out;
}

}  // namespace

TEST_CASE("a step has as many samples in memory as fit, and all where they do") {
  RunOptions options;  // 64 samples a step
  const Workload workload;
  const auto fitting = [&](int64_t available) {
    return fit_micro_batch(options, model(), workload, available);
  };
  CHECK(fitting(INT64_MAX) == 0);
  CHECK(fitting(0) == 1);
  int64_t last = 0;
  bool between = false;
  for (int64_t available = int64_t{1} << 36; available > 1 << 20; available /= 2) {
    const int64_t samples = fitting(available);
    if (last > 0) CHECK(samples <= last);
    between = between || (samples > 1 && samples < 64);
    last = samples;
  }
  CHECK(between);
  options.micro_batch_size = 7;
  CHECK(fitting(0) == 7);
  options.micro_batch_size = 0;
  options.kernels = "torch";  // its bits depend on the batch
  CHECK(fitting(0) == 0);
}

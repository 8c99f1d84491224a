#include "src/engine/memory.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "src/base/allocation.h"
#include "src/base/error.h"
#include "src/engine/rollout.h"
#include "tests/engine/models.h"
#include "tests/temporary_folder.h"

extern "C" int malloc_trim(size_t pad);  // glibc: freed memory goes back to the system

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

constexpr int64_t kTokens = 512;

/// What the estimate leaves out: stacks and buffers of threads, the allocator's rounding, and pages
/// that were resident before. A buffer that is forgotten is a larger share of models of this size.
constexpr double kUncounted = 0.2;

ModelConfig middle_model() {
  ModelConfig c = small_model(Architecture::kQwen2);
  c.hidden = 256;
  c.intermediate = 768;
  c.layers = 4;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_dim = 32;
  c.vocab = 8000;
  return c;
}

/// Bytes of /proc/self/status, "VmHWM:" or "VmRSS:".
int64_t status(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == key && file >> kib) return kib * 1024;
  }
  FAIL("no " << key);
  return 0;
}

/// How much the resident memory of the process grows, at its peak, while `run` runs.
template <class Run>
int64_t peak_growth(const Run& run) {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const int64_t before = status("VmRSS:");
  run();
  return status("VmHWM:") - before;
}

}  // namespace

TEST_CASE("the estimate of a training step is what the process grows by") {
  const ModelConfig c = middle_model();
  for (const bool recompute : {true, false}) {
    MemoryShape shape;
    shape.recompute = recompute;
    shape.micro_batch_tokens = kTokens;
    const MemoryEstimate estimate = estimate_memory(c, shape);
    const Batch batch = random_batch(c, std::vector<int64_t>(4, kTokens / 4), 3);
    ThreadPool pool(2);
    const Tables tables(c, 1024);
    const int64_t measured = peak_growth([&] {
      const Runtime runtime{kernels::cpu_kernels(), pool};
      TrainState state(c);
      fill_weights(state.model.parameters(), state.model.weights(), 7);
      state.model.pack(runtime, PackedFor::kTraining);
      Gradients gradients(state.model.parameters());
      StepConfig config;
      config.train.recompute = recompute;
      run_step(runtime, state, gradients, tables.view(), batch.samples, batch.targets, config);
    });
    CAPTURE(recompute, to_string(estimate), measured);
    CHECK(static_cast<double>(measured) ==
          Approx(static_cast<double>(estimate.total())).epsilon(kUncounted));
  }
}

TEST_CASE("the estimate of a rollout is what the process grows by") {
  const ModelConfig c = middle_model();
  MemoryShape shape;
  shape.training = false;
  shape.slots = 16;
  shape.longest_prompt = 200;
  shape.longest_sample = 202;
  const MemoryEstimate estimate = estimate_memory(c, shape);
  ThreadPool pool(2);
  const Tables tables(c, 1024);
  const int64_t measured = peak_growth([&] {
    const Runtime runtime{kernels::cpu_kernels(), pool};
    Model model(c);
    fill_weights(model.parameters(), model.weights(), 7);
    model.pack(runtime, PackedFor::kForward);
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 16; ++i) requests.push_back({i, i, std::vector<int32_t>(200, 5)});
    RolloutConfig config;
    config.max_response = 2;
    config.slots = 16;
    rollout({runtime, model, tables.view()}, requests, config);
  });
  CAPTURE(to_string(estimate), measured);
  CHECK(static_cast<double>(measured) ==
        Approx(static_cast<double>(estimate.total())).epsilon(kUncounted));
}

TEST_CASE("the parts of an estimate follow from the model's shape") {
  ModelConfig c = small_model(Architecture::kLlama);
  MemoryShape shape;
  shape.micro_batch_tokens = 100;
  const MemoryEstimate base = estimate_memory(c, shape);
  const int64_t elements = make_parameters(c).elements;
  CHECK(base.weights == 4 * elements);
  CHECK(base.moments == 8 * elements);
  CHECK(base.gradients == 8 * elements);
  CHECK(base.reference == 0);
  CHECK(base.kv_cache == 0);
  shape.reference = true;
  CHECK(estimate_memory(c, shape).reference == base.weights);
  shape.recompute = true;
  CHECK(estimate_memory(c, shape).activations < base.activations);
  shape.training = false;
  const MemoryEstimate score = estimate_memory(c, shape);
  CHECK(score.moments + score.gradients == 0);
  CHECK(score.packed == base.packed / 2);
  shape.slots = 3;
  shape.longest_sample = 50;
  CHECK(estimate_memory(c, shape).kv_cache == 3 * 50 * 2 * 2 * 2 * 24 * 4);
  // What 64 bits cannot count is more than there is, not what is left of it.
  shape.slots = int64_t{1} << 30;
  shape.longest_sample = int64_t{1} << 31;
  shape.micro_batch_tokens = int64_t{1} << 60;
  const MemoryEstimate huge = estimate_memory(c, shape);
  CHECK(huge.kv_cache == int64_t{1} << 58);
  CHECK(huge.activations == int64_t{1} << 58);
  CHECK(huge.total() > int64_t{1} << 58);
}

TEST_CASE("what does not fit is refused with its parts and what to do") {
  MemoryEstimate e;
  e.weights = 2'000'000'000;
  e.activations = 10'000'000'000;
  REQUIRE(to_string(e) == "weights 2 GB, activations 10 GB; 12 GB at the peak");
  REQUIRE_NOTHROW(check_memory(e, 12'000'000'000));
  const auto sentence = [&] {
    try {
      check_memory(e, 11'999'999'999);
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::kEnvironment);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  REQUIRE(sentence() ==
          "this run needs about 12 GB of memory and 12 GB are free (weights 2 GB, activations 10 "
          "GB; 12 GB at the peak): use a smaller --micro-batch-size, or --recompute, or a smaller "
          "model");
  e.kv_cache = 11'000'000'000;
  REQUIRE(sentence().find("--rollout-slots") != std::string::npos);
}

TEST_CASE("free memory is the least of the machine's and of every control group's") {
  const rlreplay::test::TemporaryFolder folder;
  const std::string root = folder.path().string();
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  REQUIRE(available_memory(root) == std::numeric_limits<int64_t>::max());
  write("/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB\n");
  REQUIRE(available_memory(root) == 5000 * 1024);
  write("/proc/self/cgroup", "0::/jobs/one\n");
  write("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write("/sys/fs/cgroup/jobs/one/memory.current", "100\n");
  REQUIRE(available_memory(root) == 5000 * 1024);
  write("/sys/fs/cgroup/jobs/memory.max", "1000000\n");
  write("/sys/fs/cgroup/jobs/memory.current", "400000\n");
  REQUIRE(available_memory(root) == 600000);
  write("/sys/fs/cgroup/jobs/memory.stat", "anon 7\ninactive_file 50000\nactive_file 3\n");
  REQUIRE(available_memory(root) == 650000);
  write("/sys/fs/cgroup/jobs/one/memory.max", "90\n");
  REQUIRE(available_memory(root) == 0);
  REQUIRE(available_memory() > 0);
}

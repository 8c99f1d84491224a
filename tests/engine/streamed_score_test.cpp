#include "src/engine/streamed_score.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/engine/backend.h"
#include "src/engine/bfloat16.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// A model on both ways: whole in memory, and a layer at a time.
struct Both {
  explicit Both(const ModelConfig& config)
      : pool(2),
        runtime{kernels::cpu_kernels(), pool},
        backend(make_backend("portable", runtime, {config, kernels::Rope::kHf, false, false})) {
    backend->write_state(
        0, [&](const StateSpans<float>& state) { fill_weights(backend->parameters(), state, 7); });
    read = [this](const Parameter& p, kernels::Range rows, std::span<float> out) {
      const float* from = backend->state().weights.data() + p.offset + rows.begin * p.cols;
      REQUIRE(static_cast<int64_t>(out.size()) == rows.size() * p.cols);
      std::copy_n(from, out.size(), out.data());
    };
  }

  StreamedScores stream(const std::vector<Sample>& samples, const StreamOptions& options) {
    const StreamPlan plan = plan_stream(backend->config(), samples, options);
    int64_t passes = 0;
    StreamedScores out = score_streamed(runtime, backend->config(), read, samples, options, plan,
                                        [&](int64_t done) { passes = done; });
    REQUIRE(passes == plan.passes);
    return out;
  }

  ThreadPool pool;
  Runtime runtime;
  std::unique_ptr<Backend> backend;
  WeightReader read;
};

double mean_distance(const std::vector<Scores>& a, const std::vector<Scores>& b) {
  double sum = 0, n = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t t = 0; t < a[i].log_probs.size(); ++t, ++n) {
      sum +=
          std::abs(static_cast<double>(a[i].log_probs[t]) - static_cast<double>(b[i].log_probs[t]));
    }
  }
  return sum / n;
}

}  // namespace

TEST_CASE("a layer at a time gives the bits of the whole model, however tokens are cut") {
  for (const auto architecture :
       {Architecture::kQwen2, Architecture::kQwen3, Architecture::kLlama}) {
    Both both(odd_model(architecture, architecture == Architecture::kQwen2));
    const Batch batch = random_batch(both.backend->config(), {37, 65, 5, 20, 1}, 3);
    const auto whole = both.backend->score(batch.samples, 0.9f, 0);
    StreamOptions options;
    options.temperature = 0.9f;
    for (const int64_t block_tokens : {1, 60, 1000}) {
      options.block_bytes = block_tokens * both.backend->config().hidden * 4;
      options.micro_batch_tokens = block_tokens / 2;
      const StreamedScores streamed = both.stream(batch.samples, options);
      REQUIRE(streamed.rounded.empty());
      REQUIRE(streamed.exact.size() == whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        REQUIRE(same_bits(streamed.exact[i].log_probs, whole[i].log_probs));
        REQUIRE(same_bits(streamed.exact[i].entropy, whole[i].entropy));
      }
    }
  }
}

TEST_CASE(
    "rounding to bfloat16 is seen in the second scores alone, and grows with the precision lost") {
  Both both(odd_model(Architecture::kQwen3, false));
  const Batch batch = random_batch(both.backend->config(), {60, 41, 33}, 5);
  StreamOptions options;
  const StreamedScores exact = both.stream(batch.samples, options);
  options.rounded = true;
  const StreamedScores two = both.stream(batch.samples, options);
  REQUIRE(two.rounded.size() == batch.samples.size());
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    REQUIRE(same_bits(two.exact[i].log_probs, exact.exact[i].log_probs));
  }
  const double noise = mean_distance(two.exact, two.rounded);
  // Logits of about 1 lie 2^-7 apart at most; what a few layers add is of the same order.
  REQUIRE(noise > 1e-4);
  REQUIRE(noise < 5e-2);
  options.block_bytes = 1;
  const StreamedScores cut = both.stream(batch.samples, options);
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    REQUIRE(same_bits(two.rounded[i].log_probs, cut.rounded[i].log_probs));
  }
}

TEST_CASE("the nearest bfloat16, ties to even") {
  REQUIRE(round_to_bfloat16(1.0f) == 1.0f);
  REQUIRE(round_to_bfloat16(1.0f + 0x1p-8f) == 1.0f);              // a tie, down to even
  REQUIRE(round_to_bfloat16(1.0f + 0x1.8p-7f) == 1.0f + 0x1p-6f);  // a tie, up to even
  REQUIRE(round_to_bfloat16(1.0f + 0x1.01p-8f) == 1.0f + 0x1p-7f);
  REQUIRE(round_to_bfloat16(-1.0f - 0x1.01p-8f) == -1.0f - 0x1p-7f);
  REQUIRE(std::isinf(round_to_bfloat16(std::numeric_limits<float>::max())));
  REQUIRE(std::isnan(round_to_bfloat16(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("a streamed model is estimated by its largest layer or head, not by all of them") {
  ModelConfig c = small_model(Architecture::kLlama);
  const Batch batch = random_batch(c, {30, 30}, 1);
  const StreamOptions options;
  const StreamPlan plan = plan_stream(c, batch.samples, options);
  const int64_t shallow = estimate_memory(c, options, plan).total();
  c.layers = 80;
  REQUIRE(estimate_memory(c, options, plan).total() == shallow);
}

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "src/base/error.h"
#include "src/engine/backend.h"
#include "src/events/recording_sink.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

// Leaves of 64 tokens; the second sample has three.
const std::vector<int64_t> kLengths{37, 150, 5, 65, 2};

StepConfig step_config() {
  StepConfig out = grpo_step();
  out.micro_batch_size = 2;
  out.train.leaf = 64;
  return out;
}

/// What a backend shows of its steps, and the state that it leaves.
struct Seen {
  std::vector<StepEvents> events;
  std::vector<float> weights, moments;
  std::vector<Scores> scores;
  std::vector<int64_t> sums;
  double total = 0, norm = 0;
  int64_t finished = 0;  // samples, as progress told
};

Seen run(const ModelConfig& c, const char* layout, const Batch& batch, float mlp_factor = 1) {
  ThreadPool pool(2);
  const RecordOptions record{Granularity::kOps, true, true};
  const ParameterTable names = make_parameters(c);
  RecordingSink sink(c, names, 64, record, pool);
  const Runtime runtime{kernels::cpu_kernels(), pool, &sink};
  const auto backend =
      make_backend("portable", runtime, {.model = c, .layout = parse_layout(layout)});
  backend->write_state(0, [&](const StateSpans<float>& state) {
    fill_weights(backend->parameters(), state, 7);
    const LayerParameters& last = names.layers.back();
    for (const int p : {last.gate, last.up}) {
      const auto part = state.weights.subspan(static_cast<size_t>(names[p].offset),
                                              static_cast<size_t>(names[p].size()));
      for (float& w : part) w *= mlp_factor;
    }
  });
  Seen out;
  StepConfig config = step_config();
  config.progress = [&](int64_t finished) { out.finished = std::max(out.finished, finished); };
  for (int i = 0; i < 2; ++i) {
    const StepResult result = backend->step(batch.samples, batch.targets, config);
    out.events.push_back(sink.finish(0, i));
    out.scores = result.scores;
    out.total = result.losses.total;
    out.norm = result.grad_norm;
  }
  const auto copy = [](const auto& from, auto& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  copy(backend->state().weights, out.weights);
  copy(backend->state().first_moments, out.moments);
  copy(backend->state().second_moments, out.moments);
  const auto& sums = backend->exact_gradients()->sums();
  out.sums.assign(sums.data(), sums.data() + sums.size());
  REQUIRE(backend->steps() == 2);
  return out;
}

/// The first event that two recordings of steps do not have alike.
std::string first_difference(const Seen& a, const Seen& b) {
  for (size_t s = 0; s < a.events.size(); ++s) {
    const auto &x = a.events[s].events, &y = b.events[s].events;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (x[i] == y[i]) continue;
      return std::to_string(s) + "/" + std::string(name(x[i].event.phase)) + "/" +
             std::to_string(x[i].event.layer) + "/" + std::string(name(x[i].event.op)) + "/" +
             x[i].event.tensor;
    }
    if (a.events[s] != b.events[s]) return "events or rows";
  }
  return {};
}

std::string refusal(const ModelConfig& c, const char* layout, const Batch& batch) {
  try {
    run(c, layout, batch, 1e25f);
  } catch (const Error& e) {
    return std::to_string(static_cast<int>(e.code())) + " " + e.what() + " " + e.where();
  }
  return "none";
}

}  // namespace

TEST_CASE("every event of a step is recorded as one rank records it, in every kind of layout") {
  ModelConfig few = odd_model(Architecture::kQwen3, true);
  few.kv_heads = 2;
  few.qkv_bias = true;
  for (const ModelConfig& c : {few, small_model(Architecture::kQwen2)}) {
    const Batch batch = random_batch(c, kLengths, 3);
    const Seen want = run(c, "", batch);
    for (const char* layout : {"dp=3,zero=1", "tp=2,sp=1", "tp=8", "cp=2", "pp=2", "dp=2,tp=2,cp=2",
                               "dp=2,tp=2,pp=2,sp=1,zero=1"}) {
      if (!refusal_of(c, parse_layout(layout)).empty()) continue;
      CAPTURE(c.heads, layout);
      const Seen got = run(c, layout, batch);
      CHECK(first_difference(want, got) == "");
      CHECK(got.weights == want.weights);
      CHECK(got.moments == want.moments);
      CHECK(got.sums == want.sums);
      CHECK(got.total == want.total);
      CHECK(got.norm == want.norm);
      CHECK(got.finished == std::ssize(batch.samples));
      REQUIRE(got.scores.size() == want.scores.size());
      for (size_t i = 0; i < want.scores.size(); ++i) {
        CHECK(got.scores[i].log_probs == want.scores[i].log_probs);
        CHECK(got.scores[i].entropy == want.scores[i].entropy);
      }
    }
  }
}

TEST_CASE("what a step is refused for is said as one rank says it") {
  const ModelConfig c = small_model(Architecture::kLlama);
  const Batch batch = random_batch(c, kLengths, 3);
  const std::string want = refusal(c, "", batch);
  CHECK(want.find("is not finite") != std::string::npos);
  for (const char* layout : {"dp=2", "tp=2,pp=2", "cp=2"}) CHECK(refusal(c, layout, batch) == want);
  Batch twice = batch;
  twice.samples[1].id = twice.samples[0].id;
  CHECK(refusal(c, "dp=2", twice) == refusal(c, "", twice));
}

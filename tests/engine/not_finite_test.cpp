#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "src/base/error.h"
#include "src/engine/rollout.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

const std::vector<int64_t> kLengths{37, 1 + 64, 5, 2};

/// The error of a step of a model that `change` has spoilt.
Error refused(const std::function<void(Model&)>& change, int64_t micro_batch, float advantage = 1) {
  const ModelConfig c = small_model(Architecture::kLlama);
  Batch batch = random_batch(c, kLengths, 3);
  for (SampleTargets& targets : batch.targets) {
    for (float& x : targets.advantages) x *= advantage;
  }
  ThreadPool pool(2);
  const Runtime runtime{kernels::cpu_kernels(), pool};
  TrainState state(c);
  fill_weights(state.model.parameters(), state.model.weights(), 7);
  change(state.model);
  state.model.pack(runtime, PackedFor::kTraining);
  StepConfig config;
  config.objective.policy_loss = PolicyLoss::kPlain;  // its gradient never vanishes
  config.micro_batch_size = micro_batch;
  Gradients gradients(state.model.parameters());
  const Tables tables(c, 1024);
  try {
    run_step(runtime, state, gradients, tables.view(), batch.samples, batch.targets, config);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "was accepted"};
}

void scale(Model& model, const std::string& name, float factor) {
  for (const Parameter& p : model.parameters().list) {
    if (p.name != name) continue;
    for (int64_t i = 0; i < p.size(); ++i) {
      model.weights()[static_cast<size_t>(p.offset + i)] *= factor;
    }
  }
}

bool says(const Error& error, const std::string& words) {
  return std::string(error.what()).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a log-probability that is no number is refused where it arises, before any backward") {
  for (const int64_t micro_batch : {0, 1}) {
    const Error error = refused(
        [](Model& model) {
          scale(model, "model.layers.1.mlp.gate_proj.weight", 1e25f);
          scale(model, "model.layers.1.mlp.up_proj.weight", 1e25f);
        },
        micro_batch);
    CAPTURE(error.what());
    REQUIRE(error.code() == ErrorCode::kCorrupt);
    REQUIRE(error.where() == "sample 100");
    REQUIRE(says(error, "the first that is not is forward/1/swiglu/y, "));
    REQUIRE(says(error, " at position 0, column "));
  }
}

TEST_CASE("a gradient that is no number is not tried again, and its first event is named") {
  // Small rows times a large head are ordinary logits; large gradients times it are none.
  const Error error = refused(
      [](Model& model) {
        const Parameter& head = model.parameters()[model.parameters().head];
        for (int64_t i = 0; i < head.size(); ++i) {
          float& w = model.weights()[static_cast<size_t>(head.offset + i)];
          w = std::copysign(3e38f, w);
        }
        scale(model, "model.norm.weight", 1e-38f);
      },
      0, 1e6f);
  CAPTURE(error.what());
  REQUIRE(error.code() == ErrorCode::kCorrupt);
  REQUIRE(says(error, "the first that is not is backward/-/log_prob/dx, "));
  REQUIRE(error.where().rfind("sample ", 0) == 0);
}

TEST_CASE("of fused parameters the one is named whose gradient does not fit") {
  for (const std::string part : {"q", "k", "v"}) {
    const std::string name = "model.layers.1.self_attn." + part + "_proj.weight";
    ParameterTable table = make_parameters(small_model(Architecture::kLlama));
    Gradients gradients(table);
    gradients.begin(40, {10, 1});
    const LayerParameters& p = table.layers[1];
    const auto at = std::ranges::find(table.list, name, &Parameter::name);
    REQUIRE(at != table.list.end());
    const int64_t width = table[p.q].rows + table[p.k].rows + table[p.v].rows;
    const int64_t row = (at->offset - table[p.q].offset) / at->cols + 3;
    std::vector<float> dy(static_cast<size_t>(width), 0), x(static_cast<size_t>(at->cols), 0);
    dy[static_cast<size_t>(row)] = 1e30f;
    x[5] = 1;
    const std::vector<kernels::Range> leaves{{0, 1}};
    ThreadPool pool(1);
    kernels::cpu_kernels().matmul_tokens(
        gradients.product({dy.data(), 1, width}, {x.data(), 1, at->cols}, leaves, {p.q, p.k, p.v}),
        pool);
    const auto found = gradients.refused();
    REQUIRE(found);
    REQUIRE(table[found->parameter].name == name);
    REQUIRE(found->element == 3 * at->cols + 5);
    REQUIRE(found->finite);
  }
}

TEST_CASE("logits that are no numbers draw no token") {
  const ModelConfig c = small_model(Architecture::kLlama);
  ThreadPool pool(2);
  const Tables tables(c, 1024);
  std::vector<Request> requests(3);
  for (size_t i = 0; i < requests.size(); ++i) requests[i] = {i, i, {1, 2, 3}};
  for (const kernels::KernelSet* set :
       {&kernels::reference_kernels(), &kernels::cpu_kernel_sets().back()}) {
    const Runtime runtime{*set, pool};
    Model model(c);
    fill_weights(model.parameters(), model.weights(), 11);
    scale(model, "model.layers.1.mlp.gate_proj.weight", 1e25f);
    scale(model, "model.layers.1.mlp.up_proj.weight", 1e25f);
    model.pack(runtime, PackedFor::kForward);
    for (const float temperature : {1.0f, 0.0f}) {
      RolloutConfig config;
      config.sampling.temperature = temperature;
      config.sampling.top_k = 2;
      try {
        rollout({runtime, model, tables.view()}, requests, config);
        FAIL("tokens were drawn");
      } catch (const Error& error) {
        REQUIRE(error.code() == ErrorCode::kCorrupt);
        REQUIRE(error.where() == "sample 0");
        REQUIRE(says(error, "rollout/1/swiglu/y, "));
      }
    }
  }
}

#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "src/base/error.h"
#include "src/engine/rollout.h"
#include "src/engine/torch/operators.h"
#include "src/engine/torch/run_model.h"
#include "tests/engine/models.h"
#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

const std::vector<int64_t> kLengths{37, 1 + 64, 300, 5, 129, 2};

/// The state of a model after some steps on one batch.
struct Run {
  std::string weights, moments, sums;
  std::map<uint64_t, std::string> scores;  // by sample
  std::vector<double> losses;
  double norm = 0;
  StepResult last;
};

Run run_steps(const ModelConfig& c, const Batch& batch, const StepConfig& config, int threads,
              const kernels::KernelSet& set, int steps) {
  ThreadPool pool(threads);
  const Runtime runtime{set, pool};
  TrainState state(c);
  fill_weights(state.model.parameters(), state.model.weights(), 7);
  state.model.pack(runtime, PackedFor::kTraining);
  Gradients gradients(state.model.parameters());
  const Tables tables(c, 1024);
  Run out;
  for (int i = 0; i < steps; ++i) {
    out.last =
        run_step(runtime, state, gradients, tables.view(), batch.samples, batch.targets, config);
  }
  const auto bytes = [](const auto& v) {
    return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(v[0]));
  };
  out.weights = bytes(state.model.weights());
  out.sums = bytes(gradients.sums());
  out.moments = bytes(state.moments.first) + bytes(state.moments.second);
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const Scores& s = out.last.scores[i];
    out.scores[batch.samples[i].id] = bytes(s.log_probs) + bytes(s.entropy);
  }
  const Losses& l = out.last.losses;
  out.losses = {l.policy, l.entropy, l.kl, l.total, l.clip_fraction};
  out.norm = out.last.grad_norm;
  return out;
}

}  // namespace

TEST_CASE("forward, objective and every gradient are right to float64") {
  aten::set_threads(1);  // for matrices this small a team of threads only waits
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    const ModelConfig c = small_model(architecture);
    const Batch batch = random_batch(c, kLengths, 3);
    const StepConfig config = grpo_step();
    ThreadPool pool(2);
    const Runtime runtime{kernels::cpu_kernels(), pool};
    TrainState state(c);
    fill_weights(state.model.parameters(), state.model.weights(), 7);
    state.model.pack(runtime, PackedFor::kTraining);
    aten::ModelInput in;
    in.config = &c;
    in.parameters = &state.model.parameters();
    const std::vector<float> weights(state.model.weights().data(),
                                     state.model.weights().data() + state.model.weights().size());
    in.weights = weights;
    in.samples = batch.samples;
    in.targets = batch.targets;
    in.objective = config.objective;
    const aten::ModelOutput want = aten::run_model(in, aten::Precision::kFloat64);
    const aten::ModelOutput stock = aten::run_model(in, aten::Precision::kFloat32);

    Gradients gradients(state.model.parameters());
    const Tables tables(c, 1024);
    const StepResult got =
        run_step(runtime, state, gradients, tables.view(), batch.samples, batch.targets, config);
    std::vector<float> log_probs, entropy;
    for (const Scores& s : got.scores) {
      log_probs.insert(log_probs.end(), s.log_probs.begin(), s.log_probs.end());
      entropy.insert(entropy.end(), s.entropy.begin(), s.entropy.end());
    }
    using kernels::test::allowed;
    using kernels::test::relative_l2;
    CAPTURE(static_cast<int>(architecture));
    CHECK(relative_l2(log_probs, want.log_probs) <=
          allowed(relative_l2(stock.log_probs, want.log_probs)));
    CHECK(relative_l2(entropy, want.entropy) <= allowed(relative_l2(stock.entropy, want.entropy)));
    CHECK(std::abs(got.losses.total - want.total) <= 1e-6 * std::abs(want.total) + 1e-6);
    for (const Parameter& p : state.model.parameters().list) {
      const auto part = [&](const std::vector<double>& all) {
        return std::vector<double>(all.begin() + p.offset, all.begin() + p.offset + p.size());
      };
      std::vector<double> g;
      for (int64_t i = 0; i < p.size(); ++i) {
        g.push_back(
            std::ldexp(static_cast<double>(gradients.sums()[static_cast<size_t>(p.offset + i)]),
                       -gradients.scale()));
      }
      CAPTURE(p.name);
      CHECK(relative_l2(g, part(want.gradients)) <=
            allowed(relative_l2(part(stock.gradients), part(want.gradients))));
    }
  }
}

TEST_CASE("two steps have the same bits in every micro-batch, order, thread count and kernel set") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    const ModelConfig c = small_model(architecture);
    const Batch batch = random_batch(c, kLengths, 3);
    Batch permuted;
    for (const size_t i : {3, 0, 5, 1, 4, 2}) {
      permuted.samples.push_back(batch.samples[i]);
      permuted.targets.push_back(batch.targets[i]);
    }
    const StepConfig config = grpo_step();
    const Run want = run_steps(c, batch, config, 1, kernels::cpu_kernels(), 2);
    const auto same = [&](const Run& got) {
      CHECK(got.sums == want.sums);
      CHECK(got.norm == want.norm);
      CHECK(got.weights == want.weights);
      CHECK(got.moments == want.moments);
      CHECK(got.scores == want.scores);
      CHECK(got.losses == want.losses);
    };
    // Micro-batches of 1 hold one sample each, larger ones hold them packed, 0 packs all. A part of
    // the combinations; all of them with RLREPLAY_FULL=1.
    for (const int64_t micro_batch : {1, 2, 3, 0}) {
      for (int variant = 0; variant < 4; ++variant) {
        if (variant != micro_batch && !rlreplay::test::full()) continue;
        StepConfig other = config;
        other.micro_batch_size = micro_batch;
        other.train.recompute = variant % 2 == 0;
        const Batch& order = variant / 2 == 0 ? permuted : batch;
        CAPTURE(micro_batch, variant);
        same(run_steps(c, order, other, micro_batch % 2 == 0 ? 4 : 2, kernels::cpu_kernels(), 2));
      }
    }
    same(run_steps(c, batch, config, 2, kernels::reference_kernels(), 2));
    for (const auto& set : kernels::cpu_kernel_sets()) {
      for (const int threads : {1, 2, 4}) {
        if (threads != 2 && &set != kernels::cpu_kernel_sets().data() && !rlreplay::test::full()) {
          continue;
        }
        CAPTURE(set.name, threads);
        same(run_steps(c, permuted, config, threads, set, 2));
      }
    }
  }
}

TEST_CASE("an overflow of the exact sums is seen, redone at a coarser scale and recorded") {
  const ModelConfig c = small_model(Architecture::kLlama);
  const Batch batch = random_batch(c, kLengths, 3);
  // The larger the head's weights, the larger the gradients that flow back from it.
  const auto step = [&](float factor, int64_t micro_batch) {
    ThreadPool pool(2);
    const Runtime runtime{kernels::cpu_kernels(), pool};
    TrainState state(c);
    fill_weights(state.model.parameters(), state.model.weights(), 7);
    const Parameter& head = state.model.parameters()[state.model.parameters().head];
    for (int64_t i = 0; i < head.size(); ++i) {
      state.model.weights()[static_cast<size_t>(head.offset + i)] *= factor;
    }
    state.model.pack(runtime, PackedFor::kTraining);
    StepConfig config = grpo_step();
    config.objective = {};
    config.objective.policy_loss = PolicyLoss::kPlain;  // its gradient never vanishes
    config.micro_batch_size = micro_batch;
    Gradients gradients(state.model.parameters());
    const Tables tables(c, 1024);
    const StepResult result =
        run_step(runtime, state, gradients, tables.view(), batch.samples, batch.targets, config);
    const auto* sums = reinterpret_cast<const char*>(gradients.sums().data());
    return std::pair(result.scale, std::string(sums, gradients.sums().size() * sizeof(int64_t)));
  };
  std::vector<int> seen;
  float factor = 1;
  try {
    for (; factor < 1e30f; factor *= 4) {
      const auto whole = step(factor, 0);
      if (!seen.empty() && seen.back() == whole.first) continue;
      seen.push_back(whole.first);
      for (const int64_t micro_batch : {1, 2}) REQUIRE((step(factor, micro_batch) == whole));
    }
    FAIL("gradients that fit no scale were accepted");
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::kUnsupported);
    REQUIRE(error.where().rfind("model.", 0) == 0);
  }
  REQUIRE(seen.size() == 3);
  REQUIRE(seen == std::vector<int>{seen[0], seen[0] - 8, seen[0] - 16});
}

TEST_CASE("a rollout's log-probabilities are the training forward's, whatever the slots") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    const ModelConfig c = small_model(architecture);
    ThreadPool pool(2);
    const Runtime runtime{kernels::cpu_kernels(), pool};
    Model model(c);
    fill_weights(model.parameters(), model.weights(), 11);
    model.pack(runtime, PackedFor::kForward);
    const Tables tables(c, 1024);
    Random random(5);
    std::vector<Request> requests;
    for (uint64_t i = 0; i < 7; ++i) {
      Request r{i, i / 2, {}};
      for (int64_t p = 0; p < 1 + random.below(90); ++p) {
        r.prompt.push_back(static_cast<int32_t>(random.below(c.vocab)));
      }
      requests.push_back(r);
    }
    RolloutConfig config;
    config.max_response = 40;
    config.stop_ids = {3};
    config.sampling.seed = 42;
    config.slots = 7;
    const auto want = rollout({runtime, model, tables.view()}, requests, config);
    for (int64_t slots : {1, 3}) {
      config.slots = slots;
      const auto got = rollout({runtime, model, tables.view()}, requests, config);
      for (size_t i = 0; i < want.size(); ++i) {
        REQUIRE(got[i].tokens == want[i].tokens);
        REQUIRE(got[i].rollout_log_probs == want[i].rollout_log_probs);
      }
    }
    std::vector<const Sample*> all;
    std::vector<float> rolled;
    for (const Sample& s : want) {
      all.push_back(&s);
      rolled.insert(rolled.end(), s.rollout_log_probs.begin(), s.rollout_log_probs.end());
    }
    const Scores scores = score({runtime, model, tables.view()}, all, config.sampling.temperature);
    REQUIRE(scores.log_probs == rolled);
  }
}

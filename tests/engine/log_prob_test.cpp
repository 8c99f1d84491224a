#include <catch2/catch.hpp>

#include "src/engine/rollout.h"
#include "src/engine/rotary.h"
#include "src/engine/step.h"
#include "tests/engine/models.h"
#include "tests/environment.h"

// A token has one log-probability: sampled, scored, trained on, with or without a cache, by the
// policy or by a reference model with the same weights.
using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

struct Choice {
  float temperature;
  int64_t top_k;
  double top_p;
};
constexpr Choice kChoices[] = {{1.0f, 0, 1.0}, {0.0f, 0, 1.0},   {0.7f, 0, 1.0}, {0.7f, 5, 1.0},
                               {1.0f, 0, 0.8}, {1.3f, 40, 0.95}, {0.0f, 5, 0.8}};

/// A policy with a rollout of its own.
struct Case {
  ThreadPool pool{2};
  Runtime runtime{kernels::cpu_kernels(), pool};
  kernels::RotaryTable table;
  TrainState state;
  std::vector<Sample> samples;

  Case(const ModelConfig& c, const Choice& choice)
      : table(make_rotary_table(c, kernels::Rope::kHf, 512, pool)), state(c) {
    fill_weights(state.model.parameters(), state.model.weights(), 7);
    state.model.pack(runtime, true);
    Random random(5);
    std::vector<Request> requests;
    for (const int64_t length : {1, 64, 3, 90, 17}) {
      Request r{requests.size() * 7 + 3, requests.size() / 2, {}};
      for (int64_t p = 0; p < length; ++p) {
        r.prompt.push_back(static_cast<int32_t>(random.below(c.vocab)));
      }
      requests.push_back(std::move(r));
    }
    RolloutConfig config;
    config.max_response = 24;
    config.stop_ids = {3};
    config.sampling = {choice.temperature, choice.top_k, choice.top_p, 42};
    config.slots = 3;
    samples = rollout(runtime, state.model, view(table), requests, config);
  }
  std::vector<const Sample*> pointers() const {
    std::vector<const Sample*> out;
    for (const Sample& s : samples) out.push_back(&s);
    return out;
  }
};

std::vector<float> rolled(const std::vector<Sample>& samples) {
  std::vector<float> out;
  for (const Sample& s : samples) {
    out.insert(out.end(), s.rollout_log_probs.begin(), s.rollout_log_probs.end());
  }
  return out;
}

/// Log-probabilities of a sample's response through a cache, `piece` tokens at a time.
std::vector<float> cached_log_probs(const Case& c, const Sample& s, int64_t piece,
                                    float temperature) {
  const Model& model = c.state.model;
  const auto n = static_cast<int64_t>(s.tokens.size());
  KvCache cache(model.config(), n);
  KvCache* caches[] = {&cache};
  VocabPass vocab(c.runtime, model, temperature);
  std::vector<float> out;
  for (int64_t at = 0; at + 1 < n; at += piece) {
    const int64_t count = std::min(piece, n - 1 - at);
    const Chunk chunk{
        s.id, at, std::span(s.tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
    const RowBatch batch = make_row_batch({&chunk, 1}, 0);
    Buffer<float> hidden;
    transformer_forward(c.runtime, model, batch, view(c.table), caches, hidden);
    std::vector<int64_t> rows;
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < count; ++i) {
      if (at + i + 1 < s.prompt_length) continue;
      rows.push_back(i);
      labels.push_back(s.tokens[static_cast<size_t>(at + i + 1)]);
    }
    if (rows.empty()) continue;
    vocab.forward({hidden.data(), count, model.config().hidden}, rows);
    vocab.score(labels);
    out.insert(out.end(), vocab.log_probs().begin(), vocab.log_probs().end());
  }
  return out;
}

}  // namespace

TEST_CASE("rollout, scoring, training and any prefill give a token the same log-probability") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    for (const bool tied : {false, true}) {
      for (const Choice& choice : kChoices) {
        // Every choice with each architecture; tied and untied in full.
        const bool even = (&choice - kChoices) % 2 == 0;
        if (even == tied && !rlreplay::test::full()) continue;
        CAPTURE(name(architecture), tied, choice.temperature, choice.top_k, choice.top_p);
        Case c(odd_model(architecture, tied), choice);
        const std::vector<float> want = rolled(c.samples);
        REQUIRE(want.size() > 20);
        REQUIRE(score(c.runtime, c.state.model, view(c.table), c.pointers(), choice.temperature)
                    .log_probs == want);
        for (const int64_t piece : {1, 7, 64, 1000}) {
          if (piece == 1 && choice.temperature != 0.7f && !rlreplay::test::full()) continue;
          std::vector<float> got;
          for (const Sample& s : c.samples) {
            const auto part = cached_log_probs(c, s, piece, choice.temperature);
            got.insert(got.end(), part.begin(), part.end());
          }
          REQUIRE(got == want);
        }
      }
    }
  }
}

TEST_CASE("at the first step the ratio is exactly 1 and every KL against the reference exactly 0") {
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    int number = 0;
    for (const KlType kl : {KlType::kK1, KlType::kK2, KlType::kK3, KlType::kLowVar}) {
      const Choice& choice = kChoices[number];
      CAPTURE(name(architecture), static_cast<int>(kl), choice.temperature);
      const ModelConfig config = odd_model(architecture, number++ % 2 == 0);
      Case c(config, choice);
      // The reference: the same weights in a model of its own, packed for the forward alone.
      Model reference(config);
      fill_weights(reference.parameters(), reference.weights(), 7);
      reference.pack(c.runtime, false);
      std::vector<SampleTargets> targets;
      for (const Sample& s : c.samples) {
        const Sample* one = &s;
        const Scores scores =
            score(c.runtime, reference, view(c.table), {&one, 1}, choice.temperature);
        targets.push_back({std::vector<float>(scores.log_probs.size(), 0.5f), s.rollout_log_probs,
                           scores.log_probs});
      }
      StepConfig step;
      step.objective.kl_loss_coef = 0.1;
      step.objective.kl_loss_type = kl;
      step.objective.entropy_coef = 0.01;
      step.objective.tis = Tis{};
      step.train.temperature = choice.temperature;
      step.micro_batch_samples = 2;
      step.lr = 1e-2;
      Gradients gradients(c.state.model.parameters());
      const auto run = [&] {
        return run_step(c.runtime, c.state, gradients, view(c.table), c.samples, targets, step);
      };
      const StepResult first = run();
      for (size_t i = 0; i < c.samples.size(); ++i) {
        REQUIRE(first.scores[i].log_probs == c.samples[i].rollout_log_probs);
        for (const TokenTerms& t : first.terms[i]) {
          REQUIRE(t.ratio == 1);
          REQUIRE(t.kl == 0);
          REQUIRE(t.policy == -0.5);
          REQUIRE_FALSE(t.clipped);
        }
      }
      REQUIRE(first.losses.kl == 0);
      // The weights have moved: now both differ.
      const StepResult second = run();
      REQUIRE(second.losses.kl != 0);
      REQUIRE(second.terms[1][0].ratio != 1);
    }
  }
}

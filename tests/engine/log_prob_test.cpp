#include <catch2/catch.hpp>
#include <cmath>
#include <set>

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
    state.model.pack(runtime, PackedFor::kTraining);
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
    samples = rollout({runtime, state.model, view(table)}, requests, config);
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
  KvCache cache(model, n);
  KvCache* caches[] = {&cache};
  VocabPass vocab(c.runtime, model, temperature);
  std::vector<float> out;
  for (int64_t at = 0; at + 1 < n; at += piece) {
    const int64_t count = std::min(piece, n - 1 - at);
    const Chunk chunk{
        s.id, at, std::span(s.tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
    const RowBatch batch = make_row_batch({&chunk, 1}, 0);
    Buffer<float> hidden;
    transformer_forward({c.runtime, model, view(c.table)}, batch, caches, hidden);
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
        REQUIRE(score({c.runtime, c.state.model, view(c.table)}, c.pointers(), choice.temperature)
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

/// What top-p may have left of each token: some ids, here and there without the token itself.
Nuclei random_nuclei(const Sample& s, int64_t vocab) {
  Random random(s.id);
  Nuclei out;
  out.offsets.push_back(0);
  for (int64_t t = 0; t < s.response_length(); ++t) {
    const auto count = random.below(5);
    for (uint64_t k = 0; k < static_cast<uint64_t>(count); ++k) {
      out.ids.push_back(static_cast<int32_t>(random.below(vocab)));
    }
    out.offsets.push_back(out.ids.size());
  }
  return out;
}

/// The head over one sample's response.
struct HeadCase {
  Buffer<float> hidden;
  ScoredRows scored;
  int64_t tokens = 0;

  HeadCase(const Case& c, const Sample& s) : tokens(static_cast<int64_t>(s.tokens.size())) {
    const Chunk chunk{s.id, 0, s.tokens};
    const RowBatch batch = make_row_batch({&chunk, 1}, 0);
    transformer_forward({c.runtime, c.state.model, view(c.table)}, batch, {}, hidden);
    const Sample* one = &s;
    scored = rows_to_score({&one, 1}, batch, kernels::kTokenLeaf);
  }
};

TEST_CASE("log-probabilities over nuclei are those of the kept ids, entropies of all") {
  constexpr float kTemperature = 0.7f, kC = 0.5f, kCe = 0.25f;
  Case c(odd_model(Architecture::kQwen2, false), {kTemperature, 0, 1});
  Sample s = c.samples[1];
  const Model& model = c.state.model;
  const int64_t vocab = model.config().vocab, width = model.config().hidden;
  s.nuclei = random_nuclei(s, vocab);
  const HeadCase head(c, s);
  const size_t n = head.scored.rows.size();
  VocabPass pass(c.runtime, model, kTemperature);
  pass.forward({head.hidden.data(), head.tokens, width}, head.scored.rows);
  std::vector<std::vector<float>> all;  // every id's
  for (int32_t id = 0; id < vocab; ++id) {
    pass.score(std::vector<int32_t>(n, id));
    all.emplace_back(pass.log_probs().begin(), pass.log_probs().end());
  }
  const std::vector<float> entropy(pass.entropy().begin(), pass.entropy().end());
  pass.score(head.scored.labels, head.scored.nuclei);
  const std::vector<float> kept(pass.log_probs().begin(), pass.log_probs().end());
  REQUIRE(std::vector<float>(pass.entropy().begin(), pass.entropy().end()) == entropy);

  Gradients gradients(model.parameters());
  gradients.begin(kernels::token_scale(1.0), {head.tokens, 8});
  Buffer<float> dhidden(static_cast<size_t>(head.tokens * width));
  pass.backward(head.scored.rows, head.scored.labels, std::vector<float>(n, kC),
                std::vector<float>(n, kCe), head.scored.leaves, gradients,
                {dhidden.data(), head.tokens, width});
  const auto weights = model.matrix(model.parameters().head);
  size_t moved = 0;
  for (size_t r = 0; r < n; ++r) {
    const int32_t label = head.scored.labels[r];
    const auto ids = s.nuclei->at(r);
    std::set<int32_t> chosen(ids.begin(), ids.end());
    chosen.insert(label);
    const auto log_prob = [&](int32_t id) {
      return static_cast<double>(all[static_cast<size_t>(id)][r]);
    };
    double mass = 0;
    for (const int32_t id : chosen) mass += std::exp(log_prob(id));
    REQUIRE(std::fabs(static_cast<double>(kept[r]) - (log_prob(label) - std::log(mass))) < 2e-6);
    moved += kept[r] != all[static_cast<size_t>(label)][r] ? 1 : 0;
    std::vector<double> want(static_cast<size_t>(width));
    for (int32_t id = 0; id < vocab; ++id) {
      const double p = std::exp(log_prob(id));
      double d = static_cast<double>(kCe) * p * (log_prob(id) + static_cast<double>(entropy[r]));
      if (chosen.contains(id)) d += (p / mass - (id == label ? 1 : 0)) * static_cast<double>(kC);
      for (int64_t j = 0; j < width; ++j) {
        want[static_cast<size_t>(j)] +=
            d / static_cast<double>(kTemperature) * static_cast<double>(weights(id, j));
      }
    }
    for (int64_t j = 0; j < width; ++j) {
      const auto got =
          static_cast<double>(dhidden[static_cast<size_t>(head.scored.rows[r] * width + j)]);
      REQUIRE(std::fabs(got - want[static_cast<size_t>(j)]) < 2e-6);
    }
  }
  REQUIRE(moved > 10);
}

TEST_CASE("samples with and without nuclei share a batch, and an id outside is refused") {
  Case c(odd_model(Architecture::kQwen2, true), {1.0f, 0, 1});
  const auto log_probs = [&](std::span<const Sample* const> samples) {
    return score({c.runtime, c.state.model, view(c.table)}, samples, 1).log_probs;
  };
  std::vector<float> alone;
  for (size_t i = 0; i < c.samples.size(); ++i) {
    if (i != 1) c.samples[i].nuclei = random_nuclei(c.samples[i], c.state.model.config().vocab);
    const Sample* one = &c.samples[i];
    const auto part = log_probs({&one, 1});
    if (i == 1) REQUIRE(part == c.samples[i].rollout_log_probs);
    alone.insert(alone.end(), part.begin(), part.end());
  }
  REQUIRE(log_probs(c.pointers()) == alone);
  REQUIRE(alone != rolled(c.samples));
  c.samples[2].nuclei->ids[0] = static_cast<int32_t>(c.state.model.config().vocab);
  REQUIRE_THROWS_WITH(log_probs(c.pointers()), Catch::Contains("top-p kept"));
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
      reference.pack(c.runtime, PackedFor::kForward);
      std::vector<SampleTargets> targets;
      for (const Sample& s : c.samples) {
        const Sample* one = &s;
        const Scores scores =
            score({c.runtime, reference, view(c.table)}, {&one, 1}, choice.temperature);
        targets.push_back({std::vector<float>(scores.log_probs.size(), 0.5f), s.rollout_log_probs,
                           scores.log_probs});
      }
      StepConfig step;
      step.objective.kl_loss_coef = 0.1;
      step.objective.kl_loss_type = kl;
      step.objective.entropy_coef = 0.01;
      step.objective.tis = Tis{};
      step.train.temperature = choice.temperature;
      step.micro_batch_size = 2;
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

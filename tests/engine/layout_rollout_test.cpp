#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/engine/backend.h"
#include "src/events/recording_sink.h"
#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

/// A model of 16 query heads that every tp goes into, with kv heads that tp=8 holds twice.
ModelConfig model_of(Architecture architecture) {
  ModelConfig out = odd_model(architecture, architecture == Architecture::kQwen2);
  out.kv_heads = 4;
  return out;
}

std::vector<Request> requests(const ModelConfig& c) {
  Random random(5);
  std::vector<Request> out;
  for (const int64_t length : {9, 1, 70, 3, 12, 2, 5}) {
    Request& r = out.emplace_back();
    r.id = 40 + out.size() * 3;
    r.group = out.size() / 2;
    for (int64_t i = 0; i < length; ++i) {
      r.prompt.push_back(static_cast<int32_t>(random.below(c.vocab)));
    }
  }
  return out;
}

RolloutConfig sampled(float temperature = 1, int64_t top_k = 0, double top_p = 1) {
  RolloutConfig out;
  out.sampling = {temperature, top_k, top_p, 11};
  out.max_response = 12;
  out.stop_ids = {3, 5, 8, 13, 21, 34, 55, 89};
  return out;
}

/// A model in a layout, and what it shows.
class InLayout {
 public:
  InLayout(const ModelConfig& c, const std::string& layout,
           const kernels::KernelSet& set = kernels::cpu_kernels())
      : config_(c),
        names_(make_parameters(c)),
        sink_(config_, names_, 64, {Granularity::kOps, true, true}, pool_),
        runtime_{set, pool_, &sink_},
        backend_(make_backend("portable", runtime_, {.model = c, .layout = parse_layout(layout)})) {
    write([](const ParameterTable& names, std::span<float> weights) {
      Buffer<float> filled(weights.size());
      fill_weights(names, filled, 7);
      std::copy_n(filled.data(), filled.size(), weights.data());
    });
  }

  template <class Write>
  void write(const Write& write) {
    backend_->write_state(
        0, [&](const StateSpans<float>& state) { write(backend_->parameters(), state.weights); });
  }

  /// In the order of ids.
  std::vector<Sample> generate(std::vector<Request> all, const RolloutConfig& config,
                               bool reversed = false) {
    if (reversed) std::ranges::reverse(all);
    finished_ = 0;
    auto out = backend_->generate(all, config, [&](int64_t n) { finished_ = n; });
    REQUIRE(finished_ == std::ssize(all));
    for (size_t i = 0; i < all.size(); ++i) REQUIRE(out[i].id == all[i].id);
    std::ranges::sort(out, {}, &Sample::id);
    return out;
  }

  StepEvents events() { return sink_.finish(0, 0); }
  Backend& backend() { return *backend_; }

 private:
  const ModelConfig config_;
  const ParameterTable names_;
  ThreadPool pool_{2};
  RecordingSink sink_;
  Runtime runtime_;
  std::unique_ptr<Backend> backend_;
  int64_t finished_ = 0;
};

/// The first sample that two rollouts do not have alike; -1 where there is none.
int64_t first_difference(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const Sample &x = a[i], &y = b[i];
    if (x.id != y.id || x.group != y.group || x.tokens != y.tokens ||
        x.prompt_length != y.prompt_length || x.loss_mask != y.loss_mask ||
        x.rollout_log_probs != y.rollout_log_probs) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

/// A decoded token's keys in two halves that are merged, wherever that cuts them: what kernels that
/// deal long contexts to more threads do.
void halved_decoding(const kernels::Attention& op, ThreadPool& pool) {
  const auto& set = kernels::cpu_kernels();
  set.attention(op, pool);
  const auto size = static_cast<size_t>(op.out.tokens * op.out.heads);
  const auto dim = static_cast<size_t>(op.out.dim);
  kernels::Attention half[2] = {op, op};
  std::vector<float> out[2], lse[2];
  for (const kernels::AttentionSample& s : op.samples) {
    if (s.queries.size() != 1 || s.position < 2) continue;
    const int64_t middle = s.position / 2;
    for (const int i : {0, 1}) {
      kernels::AttentionSample part = s;
      part.position = i == 0 ? middle - 1 : s.position - middle;
      if (i == 1) part.k.data = s.k.at(middle, 0);
      if (i == 1) part.v.data = s.v.at(middle, 0);
      const std::vector one{part};
      out[i].resize(size * dim);
      lse[i].resize(size);
      half[i].samples = one;
      half[i].out = {out[i].data(), op.out.tokens, op.out.heads, op.out.dim};
      half[i].lse = lse[i].data();
      set.attention(half[i], pool);
    }
    for (int64_t h = 0; h < op.out.heads; ++h) {
      const auto at = static_cast<size_t>(s.queries.begin * op.out.heads + h);
      const float most = std::max(lse[0][at], lse[1][at]);
      const float a = std::exp(lse[0][at] - most), b = std::exp(lse[1][at] - most);
      for (size_t d = 0; d < dim; ++d) {
        op.out.at(s.queries.begin, h)[d] =
            (a * out[0][at * dim + d] + b * out[1][at * dim + d]) / (a + b);
      }
    }
  }
}

std::string refusal(const ModelConfig& c, const std::string& layout, bool scores) {
  InLayout model(c, layout);
  Batch batch = random_batch(c, {9, 30, 5}, 3);
  model.write([](const ParameterTable& names, std::span<float> weights) {
    const Parameter& p = names[names.layers.back().down];
    weights[static_cast<size_t>(p.offset)] = std::numeric_limits<float>::infinity();
  });
  try {
    if (scores) static_cast<void>(model.backend().score(batch.samples, 1, 2));
    if (!scores) static_cast<void>(model.generate(requests(c), sampled()));
  } catch (const Error& e) {
    return std::to_string(static_cast<int>(e.code())) + " " + e.what() + " " + e.where();
  }
  return "none";
}

const std::vector<std::string> kLayouts{"dp=2",      "dp=3",
                                        "tp=2",      "tp=4",
                                        "dp=2,tp=2", "dp=3,tp=4",
                                        "tp=8",      "pp=2",
                                        "cp=2,dp=2", "dp=2,tp=2,pp=2",
                                        "cp=3",      "tp=2,sp=1",
                                        "dp=8",      "dp=2,tp=2,pp=2,sp=1,zero=1"};

}  // namespace

TEST_CASE("a rollout in a layout has the tokens, log-probabilities and events of one rank") {
  for (const Architecture a : {Architecture::kQwen3, Architecture::kQwen2}) {
    const ModelConfig c = model_of(a);
    const std::vector<Request> all = requests(c);
    for (const RolloutConfig& config : {sampled(), sampled(0.8f, 20, 0.9), sampled(0)}) {
      InLayout one(c, "");
      const std::vector<Sample> want = one.generate(all, config);
      const StepEvents shown = one.events();
      REQUIRE(shown.events.size() > 20);
      for (const std::string& layout : kLayouts) {
        CAPTURE(layout, config.sampling.temperature, config.sampling.top_k);
        InLayout model(c, layout);
        for (const int64_t slots : {32, 1, 4}) {
          RolloutConfig limited = config;
          limited.slots = slots;
          CHECK(first_difference(want, model.generate(all, limited, slots == 4)) == -1);
          CHECK((model.events() == shown));
        }
      }
    }
  }
}

TEST_CASE("in a layout a cold cache, a warm one and the forward of training give the same bits") {
  const ModelConfig c = model_of(Architecture::kQwen3);
  const std::vector<Request> all = requests(c);
  const RolloutConfig config = sampled(0.9f);
  for (const std::string& layout : kLayouts) {
    CAPTURE(layout);
    InLayout model(c, layout);
    const std::vector<Sample> warm = model.generate(all, config);
    for (const int64_t micro_batch : {0, 1, 3}) {
      const std::vector<Scores> scores = model.backend().score(warm, 0.9f, micro_batch);
      REQUIRE(scores.size() == warm.size());
      for (size_t i = 0; i < warm.size(); ++i) {
        CHECK(scores[i].log_probs == warm[i].rollout_log_probs);
        CHECK(scores[i].entropy.size() == warm[i].rollout_log_probs.size());
      }
    }
    // Taken up in the middle, with a prompt that another cache had token by token.
    std::vector<Request> rest;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<std::vector<float>> log_probs;
    for (const Sample& s : warm) {
      const int64_t half = s.response_length() / 2;
      const auto split = s.tokens.begin() + s.prompt_length + half;
      rest.push_back({s.id, s.group, {s.tokens.begin(), split}});
      tokens.push_back(s.tokens);
      log_probs.emplace_back(s.rollout_log_probs.begin() + half, s.rollout_log_probs.end());
    }
    const std::vector<Sample> cold = model.generate(rest, config);
    for (size_t i = 0; i < cold.size(); ++i) {
      const auto n = std::min(cold[i].tokens.size(), tokens[i].size());
      CHECK(std::equal(tokens[i].begin(), tokens[i].end(), cold[i].tokens.begin()));
      REQUIRE(n == tokens[i].size());
      CHECK(
          std::equal(log_probs[i].begin(), log_probs[i].end(), cold[i].rollout_log_probs.begin()));
    }
  }
}

TEST_CASE("keys that decoding splits elsewhere are seen by a cold cache, and in a layout") {
  const ModelConfig c = model_of(Architecture::kLlama);
  kernels::KernelSet broken = kernels::cpu_kernels();
  broken.attention = halved_decoding;
  InLayout one(c, ""), two(c, "dp=2,tp=2", broken);
  const std::vector<Sample> want = one.generate(requests(c), sampled());
  const std::vector<Sample> got = two.generate(requests(c), sampled());
  CHECK(first_difference(want, got) != -1);
  const std::vector<Scores> cold = two.backend().score(got, 1, 0);
  bool same = true;
  for (size_t i = 0; i < got.size(); ++i) same &= cold[i].log_probs == got[i].rollout_log_probs;
  CHECK_FALSE(same);
}

TEST_CASE("a run that goes on in another layout generates what the straight run does") {
  const ModelConfig c = model_of(Architecture::kLlama);
  const std::vector<Request> all = requests(c);
  const Batch batch = random_batch(c, {37, 12, 5, 30}, 3);
  StepConfig step = grpo_step();
  step.train.leaf = 64;
  InLayout straight(c, "dp=2,tp=2");
  const std::vector<Sample> before = straight.generate(all, sampled());
  static_cast<void>(straight.backend().step(batch.samples, batch.targets, step));
  const std::vector<Sample> want = straight.generate(all, sampled());
  REQUIRE(first_difference(before, want) != -1);  // the step changed something
  const std::vector<Scores> scores = straight.backend().score(batch.samples, 1, 0);
  for (const char* layout : {"", "tp=4", "dp=3", "pp=2,cp=2"}) {
    CAPTURE(layout);
    InLayout resumed(c, layout);
    const auto state = straight.backend().state();
    resumed.backend().write_state(1, [&](const StateSpans<float>& to) {
      std::ranges::copy(state.weights, to.weights.begin());
    });
    CHECK(first_difference(want, resumed.generate(all, sampled())) == -1);
    const std::vector<Scores> again = resumed.backend().score(batch.samples, 1, 0);
    for (size_t i = 0; i < scores.size(); ++i) {
      CHECK(again[i].log_probs == scores[i].log_probs);
      CHECK(again[i].entropy == scores[i].entropy);
    }
  }
}

TEST_CASE("what a rollout or a score is refused for is said as one rank says it") {
  const ModelConfig c = model_of(Architecture::kLlama);
  for (const bool scores : {false, true}) {
    const std::string want = refusal(c, "", scores);
    CHECK(want.find("finite; the first that is not is ") != std::string::npos);
    for (const char* layout : {"dp=2", "tp=2,pp=2", "cp=2"}) {
      CAPTURE(layout, scores);
      CHECK(refusal(c, layout, scores) == want);
    }
  }
}

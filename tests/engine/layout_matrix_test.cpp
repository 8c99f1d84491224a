#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "format/foreign/checkpoint.h"
#include "format/foreign/float_values.h"
#include "src/base/error.h"
#include "tests/engine/delayed_group.h"
#include "tests/engine/layout_run.h"
#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

/// Every layout of {dp 1, 2, 3, 4} x {tp 1, 2, 4, 8} x {pp 1, 2} x {cp 1, 2} with at most 8 ranks
/// that a model goes into; without RLREPLAY_FULL=1 each layout with one model and micro-batch.
namespace {

// Ragged, two of several leaves of 64 tokens.
const std::vector<int64_t> kLengths{37, 150, 5, 65, 2, 64};

struct Subject {
  const char* name;
  ModelConfig config;
  Batch batch;
  StepConfig step;
  std::vector<float> weights;  // of a checkpoint; else random ones
  LayoutRun want;
};

/// What a step can do besides: sequence-level ratios, trajectories, ids that top-p left.
void vary(Subject& s, int which) {
  s.step.objective.kl_loss_coef = 0.05;
  s.step.objective.entropy_coef = 0.01;
  s.step.train.leaf = 64;
  s.step.lr = 1e-3;
  s.step.train.recompute = which % 2 == 1;
  if (which == 1) s.step.objective.policy_loss = PolicyLoss::kSequence;
  if (which == 2) s.step.objective.reducer = Reducer::kTokenMean;
  if (which == 3) {
    s.batch.samples[1].trajectory = s.batch.samples[4].trajectory = 7;
    rlreplay::test::Random random(5);
    for (size_t i = 0; i < 3; ++i) {
      Sample& sample = s.batch.samples[i];
      Nuclei& kept = sample.nuclei.emplace();
      kept.offsets.push_back(0);
      for (int64_t t = 0; t < sample.response_length(); ++t) {
        std::set<int32_t> ids;
        for (int k = 0; k < 5; ++k) {
          ids.insert(static_cast<int32_t>(random.below(s.config.vocab)));
        }
        kept.ids.insert(kept.ids.end(), ids.begin(), ids.end());
        kept.offsets.push_back(kept.ids.size());
      }
    }
  }
}

std::vector<float> weights_of(const foreign::Checkpoint& checkpoint) {
  const ParameterTable table = make_parameters(checkpoint.config());
  std::vector<float> out(static_cast<size_t>(table.elements));
  for (const Parameter& p : table.list) {
    foreign::to_float(
        checkpoint.tensor(p.name),
        std::span(out).subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size())));
  }
  return out;
}

LayoutTask task_of(const Subject& s, int64_t micro_batch) {
  LayoutTask out(s.config, s.batch);
  out.weights = s.weights;
  out.step = s.step;
  out.step.micro_batch_size = micro_batch;
  return out;
}

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    std::vector<Subject> out;
    const auto add = [&](const char* name, const ModelConfig& c, std::vector<float> weights = {}) {
      Subject s{name, c, random_batch(c, kLengths, 3), {}, std::move(weights), {}};
      vary(s, static_cast<int>(out.size()) % 4);
      s.want = run_layout(task_of(s, 0), {});
      out.push_back(std::move(s));
    };
    ModelConfig few = odd_model(Architecture::kQwen2, true);
    few.kv_heads = 2;  // tp above 2 holds them more than once
    add("odd, tied, with 2 kv heads", few);
    add("small llama", small_model(Architecture::kLlama));
    add("small qwen2", small_model(Architecture::kQwen2));
    add("odd qwen3", odd_model(Architecture::kQwen3, false));
    add("small qwen3", small_model(Architecture::kQwen3));
    add("odd llama, tied", odd_model(Architecture::kLlama, true));
    const auto reference = rlreplay::test::reference_folder();
    for (const char* name : {"tiny-llama", "tiny-qwen2", "tiny-qwen3"}) {
      if (!reference) continue;
      const auto checkpoint = foreign::Checkpoint::open(*reference + "/models/" + name);
      add(name, checkpoint.config(), weights_of(checkpoint));
    }
    return out;
  }();
  return all;
}

std::vector<Layout> matrix() {
  std::vector<Layout> out;
  for (const int dp : {1, 2, 3, 4}) {
    for (const int tp : {1, 2, 4, 8}) {
      for (const int pp : {1, 2}) {
        for (const int cp : {1, 2}) {
          const Layout l{.dp = dp, .tp = tp, .pp = pp, .cp = cp};
          if (l.ranks() > 1 && l.ranks() <= 8) out.push_back(l);
        }
      }
    }
  }
  return out;
}

void check_layout_of(const Subject& s, Layout layout, int64_t micro_batch, uint64_t seed) {
  CAPTURE(s.name, to_string(layout), micro_batch, seed);
  LayoutTask task = task_of(s, micro_batch);
  task.run = [&](const Layout& l, const auto& work) { run_delayed_ranks(l, seed, work); };
  CHECK(difference(s.want, run_layout(task, layout)) == "");
}

}  // namespace

TEST_CASE("a step has the same bits in every layout that its model goes into") {
  size_t turn = rlreplay::test::seed();
  constexpr int64_t kMicroBatches[] = {1, 2, 0};
  for (const Layout& layout : matrix()) {
    std::vector<const Subject*> fitting;
    for (const Subject& s : subjects()) {
      if (refusal_of(s.config, layout).empty()) fitting.push_back(&s);
    }
    REQUIRE_FALSE(fitting.empty());
    for (size_t i = 0; i < fitting.size(); ++i) {
      if (!rlreplay::test::full() && i != turn % fitting.size()) continue;
      for (size_t k = 0; k < 3; ++k) {
        if (!rlreplay::test::full() && k != turn % 3) continue;
        Layout varied = layout;
        varied.zero = layout.dp > 1 && turn % 2 == 0;
        varied.sp = layout.tp > 1 && turn % 3 != 0;
        check_layout_of(*fitting[i], layout, kMicroBatches[k], turn);
        if (varied != layout) check_layout_of(*fitting[i], varied, kMicroBatches[k], turn);
      }
    }
    ++turn;
  }
}

TEST_CASE("a layout that would cut a segment is refused with those that do") {
  const auto refused = [](const ModelConfig& c) { return refusal_of(c, {.tp = 8}); };
  CHECK(refused(odd_model(Architecture::kQwen3, false)) == "");
  ModelConfig four = odd_model(Architecture::kQwen3, false);
  four.heads = 4;
  four.kv_heads = 2;
  CHECK(refused(four) != "");
  CHECK_THROWS_AS(check_layout(four, {.tp = 8}), Error);
  CHECK(refusal_of(four, {.tp = 4}) == "");
}

TEST_CASE("an overflow on one rank lets all of them begin anew at a smaller scale") {
  const ModelConfig c = small_model(Architecture::kQwen2);
  Batch batch = random_batch(c, kLengths, 3);
  Subject s{"large head", c, batch, {}, {}, {}};
  vary(s, 0);
  s.step.objective = {};
  s.step.objective.policy_loss = PolicyLoss::kPlain;  // its gradient never vanishes
  int scale = 0;
  for (float factor = 1; factor < 1e30f && scale >= 0; factor *= 8) {
    LayoutTask task = task_of(s, 2);
    task.steps = 1;
    task.head_factor = factor;
    const auto run = [&](const char* layout) -> LayoutRun {
      try {
        return run_layout(task, parse_layout(layout));
      } catch (const Error& e) {
        LayoutRun out;
        out.scale = -1;
        return out;
      }
    };
    const LayoutRun want = run("");
    if (want.scale == scale) continue;
    scale = want.scale;
    for (const char* layout : {"dp=3", "tp=2", "pp=2", "cp=2", "dp=2,tp=2,sp=1"}) {
      CAPTURE(factor, layout, scale);
      CHECK(difference(want, run(layout)) == "");
    }
  }
  CHECK(scale == -1);  // three scales were seen, then the refusal
}

TEST_CASE("numbers that are not finite end every rank") {
  const Subject& s = subjects()[1];
  LayoutTask task = task_of(s, 1);
  task.steps = 1;
  task.head_factor = INFINITY;
  for (const char* layout : {"dp=2,tp=2", "cp=2,pp=2"}) {
    CHECK_THROWS_AS(run_layout(task, parse_layout(layout)), Error);
  }
}

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/engine/broken_group.h"
#include "tests/engine/layout_run.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

/// A sample that is taken out of a step, both ways: its own sums from the total, and the step
/// without it, all that the batch says being held.
namespace {

// Ragged, some of several leaves of 64 tokens.
const std::vector<int64_t> kRagged{37, 150, 5, 65, 2, 64};

Batch only(const Batch& all, const std::function<bool(size_t)>& wanted) {
  Batch out;
  for (size_t i = 0; i < all.samples.size(); ++i) {
    if (!wanted(i)) continue;
    out.samples.push_back(all.samples[i]);
    out.targets.push_back(all.targets[i]);
  }
  return out;
}

class Removal {
 public:
  Removal(const ModelConfig& c, float head_factor = 1)
      : config_(c), batch_(random_batch(c, kRagged, 3)), head_factor_(head_factor) {
    step_.objective.kl_loss_coef = 0.05;
    step_.objective.entropy_coef = 0.01;
    step_.train.leaf = 64;
  }

  ObjectiveConfig& objective() { return step_.objective; }
  Batch& batch() { return batch_; }
  size_t samples() const { return batch_.samples.size(); }

  LayoutRun whole() const { return run(batch_, step_, {}); }
  LayoutRun held(const LayoutRun& whole, const std::function<bool(size_t)>& wanted,
                 const Layout& layout = {}, int64_t micro_batch = 0,
                 const RunRanks& ranks = {}) const {
    ThreadPool pool(1);
    const Runtime alone{kernels::cpu_kernels(), pool, nullptr, nullptr};
    StepConfig step = step_;
    step.micro_batch_size = micro_batch;
    step.held = hold_batch(alone, step.objective, step.train.leaf, {}, batch_.samples,
                           batch_.targets, whole.scale);
    return run(only(batch_, wanted), step, layout, ranks);
  }
  LayoutRun without(size_t sample) const {
    return run(only(batch_, [=](size_t i) { return i != sample; }), step_, {});
  }

 private:
  LayoutRun run(const Batch& batch, const StepConfig& step, const Layout& layout,
                const RunRanks& ranks = {}) const {
    LayoutTask task(config_, batch);
    task.step = step;
    task.steps = 1;
    task.head_factor = head_factor_;
    task.run = ranks;
    return run_layout(task, layout);
  }

  const ModelConfig config_;
  Batch batch_;
  StepConfig step_;
  const float head_factor_;
};

/// The integers of two runs, one taken from the other; they may wrap around.
std::string less(const std::string& from, const std::string& what) {
  std::vector<uint64_t> a(from.size() / 8), b(what.size() / 8);
  REQUIRE(a.size() == b.size());
  std::memcpy(a.data(), from.data(), from.size());
  std::memcpy(b.data(), what.data(), what.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return bytes(a);
}

/// Both ways for every sample, in one rank and in a layout.
void check_removals(const Removal& removal, const Layout& layout) {
  const LayoutRun whole = removal.whole();
  for (size_t sample = 0; sample < removal.samples(); ++sample) {
    CAPTURE(sample, to_string(layout));
    const auto others = [=](size_t i) { return i != sample; };
    const LayoutRun own = removal.held(whole, [=](size_t i) { return i == sample; });
    const LayoutRun rest = removal.held(whole, others);
    CHECK(rest.scale == whole.scale);
    CHECK(less(whole.sums, own.sums) == rest.sums);
    CHECK(rest.sums != whole.sums);
    CHECK(difference(rest, removal.held(whole, others, layout, 2)) == "");
  }
}

}  // namespace

TEST_CASE("a sample's integers taken from the total are the step without it") {
  check_removals(Removal(small_model(Architecture::kLlama)), parse_layout("dp=2,cp=2"));
  check_removals(Removal(odd_model(Architecture::kQwen2, true)), parse_layout("tp=2,pp=2"));
  check_removals(Removal(odd_model(Architecture::kQwen3, false)), parse_layout("dp=2,tp=2,zero=1"));
}

TEST_CASE("a sample is taken out of a step whose losses read whole samples") {
  Removal removal(small_model(Architecture::kQwen3));
  removal.objective().policy_loss = PolicyLoss::kSequence;
  removal.objective().reducer = Reducer::kTokenMean;
  check_removals(removal, parse_layout("cp=2"));
}

TEST_CASE("a trajectory that loses a sample keeps its denominator") {
  Removal removal(small_model(Architecture::kLlama));
  removal.batch().samples[1].trajectory = removal.batch().samples[4].trajectory = 7;
  check_removals(removal, parse_layout("dp=3"));
}

TEST_CASE("a step that began anew at a smaller scale keeps it without any of its samples") {
  const ModelConfig c = small_model(Architecture::kQwen2);
  const auto of = [&](float factor) {
    Removal out(c, factor);
    out.objective() = {};
    out.objective().policy_loss = PolicyLoss::kPlain;  // its gradient never vanishes
    return out;
  };
  const int first = of(1).whole().scale;
  float factor = 8;
  while (of(factor).whole().scale == first) factor *= 8;
  const Removal removal = of(factor);
  CHECK(removal.whole().scale == first - 8);
  check_removals(removal, parse_layout("dp=2,tp=2"));
}

TEST_CASE("a step that holds nothing of the sample that it lost has other integers") {
  const Removal removal(small_model(Architecture::kLlama));
  const LayoutRun whole = removal.whole();
  CHECK(removal.without(1).sums != removal.held(whole, [](size_t i) { return i != 1; }).sums);
}

TEST_CASE("gradients that are added as floats leave a rest where a sample is taken out") {
  const Removal removal(small_model(Architecture::kQwen2));
  const Layout layout = parse_layout("dp=3");
  const LayoutRun scale = removal.whole();
  const auto rest = [&](const RunRanks& ranks) {
    const auto run = [&](const std::function<bool(size_t)>& wanted) {
      return removal.held(scale, wanted, layout, 0, ranks).sums;
    };
    const std::string one = run([](size_t i) { return i == 1; });
    return less(less(run([](size_t) { return true; }), one), run([](size_t i) { return i != 1; }));
  };
  const std::string nothing(scale.sums.size(), '\0');
  CHECK(rest({}) == nothing);
  CHECK(rest(broken_dp<FloatSums>()) != nothing);
}

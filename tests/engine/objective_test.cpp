#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>

#include "src/base/error.h"
#include "src/engine/global_batch.h"
#include "src/objective/advantage.h"
#include "src/objective/batch_objective.h"
#include "src/objective/check_batch.h"
#include "src/objective/token_objective.h"
#include "tests/engine/objective_batch.h"
#include "tests/engine/objective_formulas.h"
#include "tests/kernels/support.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;
using formulas::Real;
using formulas::ulps;
using kernels::test::Random;

namespace {

constexpr Reducer kReducers[] = {Reducer::kSampleMean, Reducer::kTokenMean};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kOtherOrder = 1e-12;  // of a sum of some hundreds in binary64, in another order
constexpr double kBinary32 = 0x1p-23;  // of a number that was rounded to binary32 once

/// Every combination of what a token's objective can be.
std::vector<ObjectiveConfig> all_configs() {
  std::vector<ObjectiveConfig> out;
  for (const Dialect dialect : kDialects) {
    for (const PolicyLoss loss : {PolicyLoss::kClip, PolicyLoss::kPlain}) {
      for (const KlType kl : kKlTypes) {
        for (const double kl_coef : {0.0, 0.05}) {
          for (const double entropy : {0.0, 0.01}) {
            for (int variant = 0; variant < 6; ++variant) {
              ObjectiveConfig o;
              o.dialect = dialect;
              o.policy_loss = loss;
              o.kl_loss_type = kl;
              o.kl_loss_coef = kl_coef;
              o.entropy_coef = entropy;
              o.eps_clip_high = variant % 2 == 0 ? 0.2 : 0.28;
              if (variant % 2 == 1) o.eps_clip_c = 3.0;
              if (variant / 2 == 1) o.tis = Tis{};
              if (variant / 2 == 2) o.tis = Tis{0.5, 1.25};
              out.push_back(o);
            }
          }
        }
      }
    }
  }
  return out;
}

/// Tokens with ratios inside, at and far outside of every clip.
std::vector<TokenInput> tokens() {
  Random random(11);
  std::vector<TokenInput> out;
  for (const float spread : {0.0f, 1e-6f, 1e-3f, 0.1f, 1.0f, 10.0f, 40.0f}) {
    for (int i = 0; i < 12; ++i) {
      TokenInput t;
      t.log_prob = -3.0f + random.normal();
      t.entropy = 2.0f + 0.1f * random.normal();
      t.old_log_prob = t.log_prob + spread * random.normal();
      t.ref_log_prob = t.log_prob + spread * random.normal();
      t.rollout_log_prob = t.old_log_prob + spread * random.normal();
      t.advantage = i == 0 ? 0.0f : random.normal();
      t.weight = 1.0 / (1 + random.below(300));
      out.push_back(t);
    }
  }
  return out;
}

/// The engine's terms of a batch's token.
TokenTerms terms(const ObjectiveConfig& o, const Batch& b, size_t i, size_t t) {
  TokenInput in;
  in.log_prob = b.log_probs[i][t];
  in.entropy = b.entropy[i][t];
  in.old_log_prob = b.targets[i].old_log_probs[t];
  in.ref_log_prob = b.targets[i].ref_log_probs[t];
  in.rollout_log_prob = b.samples[i].rollout_log_probs[t];
  in.advantage = b.targets[i].advantages[t];
  in.masked = b.samples[i].loss_mask[t] == 0;
  in.weight = in.masked ? 0.0 : sample_weights(o.reducer, b.samples)[i];
  return token_objective(o, in);
}

/// The batch's loss by the formulas, with one log-probability moved by `h`.
Real batch_loss(const ObjectiveConfig& o, const Batch& b, size_t sample, size_t place, Real h) {
  return formulas::reduced(o.reducer, b.samples, [&](size_t i, size_t t) {
    const Real moved = i == sample && t == place ? h : 0;
    return formulas::total(o, {b.log_probs[i][t] + moved, b.entropy[i][t],
                               b.targets[i].old_log_probs[t], b.targets[i].ref_log_probs[t],
                               b.samples[i].rollout_log_probs[t], b.targets[i].advantages[t]});
  });
}

}  // namespace

TEST_CASE(
    "a token's loss with every KL, clip and weight is its formula, and c and ce its derivatives") {
  const auto inputs = tokens();
  double worst_term = 0, worst_gradient = 0;
  int64_t clipped = 0, flat = 0;
  for (const ObjectiveConfig& o : all_configs()) {
    for (const TokenInput& t : inputs) {
      const TokenTerms got = token_objective(o, t);
      const formulas::Token want = token(t);
      const Real total = formulas::total(o, want), policy = formulas::policy(o, want);
      if (std::fabs(total) > 1e300L) continue;  // slime's ratio is not clamped
      const Real kl = o.kl_loss_coef == 0 ? 0 : formulas::loss_kl(o, want);
      // A sum of terms may cancel: it is judged by the size of its largest term.
      const Real size = std::max({std::fabs(policy), std::fabs(kl), std::fabs(total)});
      worst_term = std::max({worst_term, ulps<double>(got.ratio, std::exp(log_ratio(o, want))),
                             ulps<double>(got.policy, policy), ulps<double>(got.kl, kl),
                             ulps<double>(size + got.total - total, size)});
      const Real slope = formulas::derivative(o, want);
      worst_gradient = std::max({worst_gradient, ulps<float>(got.c, -t.weight * slope),
                                 ulps<float>(got.ce, o.entropy_coef * t.weight)});
      const double bounded = std::clamp(got.ratio, 1 - o.eps_clip, 1 + o.eps_clip_high);
      const double a = static_cast<double>(t.advantage);
      REQUIRE(got.clipped == (o.policy_loss == PolicyLoss::kClip && -bounded * a > -got.ratio * a));
      clipped += got.clipped ? 1 : 0;
      flat += slope == 0 ? 1 : 0;
    }
  }
  CAPTURE(worst_term, worst_gradient);
  CHECK(worst_term <= 4);
  CHECK(worst_gradient <= 0.51);
  CHECK(clipped > 1000);
  CHECK(flat > 1000);
}

TEST_CASE("c is the derivative of the batch's loss by central differences") {
  const Batch b = random_batch(5);
  for (ObjectiveConfig o : all_configs()) {
    if (o.kl_loss_coef == 0 || o.entropy_coef == 0) continue;
    for (const Reducer reducer : kReducers) {
      o.reducer = reducer;
      for (size_t i = 0; i < b.samples.size(); ++i) {
        for (size_t t = 0; t < b.log_probs[i].size(); ++t) {
          const Real h = 1e-5L;
          const Real up = batch_loss(o, b, i, t, h), here = batch_loss(o, b, i, t, 0),
                     down = batch_loss(o, b, i, t, -h);
          const Real want = (up - down) / (2 * h);
          if (std::fabs((up - here) - (here - down)) > 1e-3L * h) continue;  // a kink lies between
          const Real got = -static_cast<Real>(terms(o, b, i, t).c);
          REQUIRE(std::fabs(got - want) <= 1e-7L * std::fabs(want) + 1e-9L);
        }
      }
    }
  }
}

TEST_CASE("reducers: weights, and losses as sums of weighted terms, within 4 ulp") {
  const Batch b = random_batch(6);
  ThreadPool pool(1);
  const Runtime runtime{kernels::cpu_kernels(), pool};
  for (ObjectiveConfig o : all_configs()) {
    for (const Reducer reducer : kReducers) {
      o.reducer = reducer;
      const std::vector<double> weights = sample_weights(reducer, b.samples);
      Real got = 0;
      double loss_weight = 0;
      for (size_t i = 0; i < b.samples.size(); ++i) {
        REQUIRE(ulps<double>(weights[i], formulas::weight(reducer, b.samples, i)) <= 1);
        for (size_t t = 0; t < b.log_probs[i].size(); ++t) {
          const TokenTerms x = terms(o, b, i, t);
          if (b.samples[i].loss_mask[t] == 0) {
            REQUIRE(x.c == 0);
            REQUIRE(x.ce == 0);
            continue;
          }
          got += weights[i] * x.total;
          loss_weight += weights[i] * (std::fabs(static_cast<double>(b.targets[i].advantages[t])) +
                                       o.kl_loss_coef + o.entropy_coef);
        }
      }
      REQUIRE(ulps<float>(got, batch_loss(o, b, 0, 0, 0)) <= 0.01);
      const GlobalBatch global = gather_batch(runtime, o, 256, {}, b.samples, b.targets);
      REQUIRE(global.weights == weights);
      REQUIRE(global.loss_weight == Approx(loss_weight).epsilon(kOtherOrder));
    }
  }
}

TEST_CASE("equal log-probabilities: ratio exactly 1, every KL exactly 0") {
  for (const ObjectiveConfig& o : all_configs()) {
    for (const float log_prob : {-0.0f, -1e-30f, -0.7f, -12.3456f, -87.0f}) {
      TokenInput t;
      t.log_prob = t.old_log_prob = t.ref_log_prob = t.rollout_log_prob = log_prob;
      t.advantage = 0.625f;
      t.weight = 1;
      const TokenTerms got = token_objective(o, t);
      REQUIRE(got.ratio == 1);
      REQUIRE(got.kl == 0);
      if (o.policy_loss == PolicyLoss::kClip) REQUIRE(got.policy == -0.625);
    }
  }
}

TEST_CASE("extreme ratios: slime lets them grow, Miles holds them at exp(20) without a gradient") {
  TokenInput t;
  t.log_prob = -1;
  t.old_log_prob = -90;
  t.ref_log_prob = -90;
  t.advantage = -1;
  t.weight = 1;
  ObjectiveConfig o;
  o.kl_loss_coef = 1;
  o.kl_loss_type = KlType::kK2;
  REQUIRE(ulps<double>(token_objective(o, t).ratio, std::exp(Real{89})) <= 2);
  REQUIRE(token_objective(o, t).c == -(static_cast<float>(std::exp(89.0)) + 89.0f));
  o.dialect = Dialect::kMiles;
  REQUIRE(ulps<double>(token_objective(o, t).ratio, std::exp(Real{20})) <= 2);
  REQUIRE(token_objective(o, t).kl == 89 * 89 / 2.0);
  REQUIRE(token_objective(o, t).c == -89);
  o.kl_loss_type = KlType::kLowVar;
  t.ref_log_prob = -21.5f;  // d above 20: both the bound of d and that of its KL hold
  REQUIRE(token_objective(o, t).kl == 10);
  REQUIRE(token_objective(o, t).c == 0);
  o.kl_loss_type = KlType::kK3;
  t.ref_log_prob = 100;  // exp(101) is no binary32
  REQUIRE(token_objective(o, t).kl == 0);
  t.ref_log_prob = -1;
  for (const float old : {kInfinity, -kInfinity, std::nanf("")}) {
    t.old_log_prob = old;
    REQUIRE(token_objective(o, t).ratio == 1);
    REQUIRE(token_objective(o, t).c == 0);
  }
  t.old_log_prob = -3;
  t.masked = true;
  REQUIRE(token_objective(o, t).ratio == 1);
  o.dialect = Dialect::kSlime;
  t.old_log_prob = std::nanf("");
  t.weight = 0;
  REQUIRE(token_objective(o, t).c == 0);
  REQUIRE(token_objective(o, t).ce == 0);
}

TEST_CASE("every estimator's advantages are their formula, rounded once") {
  Batch b = random_batch(7);
  b.samples[5].loss_mask[1] = 1;  // REINFORCE++ takes no sample without a token that counts
  drop_empty(b);
  b.samples[0].group = 1;  // whose only fellow was empty
  for (const auto estimator :
       {Estimator::kGrpo, Estimator::kReinforcePlusPlusBaseline, Estimator::kPolicyGradient,
        Estimator::kReinforcePlusPlus, Estimator::kPpo}) {
    for (const Dialect dialect : kDialects) {
      for (int variant = 0; variant < 32; ++variant) {
        AdvantageConfig a;
        a.gamma = variant % 3 == 0 ? 1 : 0.9;
        a.lambda = variant % 5 == 0 ? 1 : 0.8;
        if (variant % 3 == 1) a.opd_kl_coef = 0.3;
        a.estimator = estimator;
        a.dialect = dialect;
        a.normalize_rewards = (variant & 1) != 0;
        a.normalize_std = (variant & 2) != 0;
        a.normalize_advantages = (variant & 4) != 0;
        a.kl_coef = 0.1;
        a.kl_type = kKlTypes[variant / 8];
        set_advantages(a, b.samples, b.targets);
        const auto want = formulas::advantages(a, b.samples, b.targets);
        for (size_t i = 0; i < want.size(); ++i) {
          REQUIRE(b.targets[i].advantages.size() == want[i].size());
          for (size_t t = 0; t < want[i].size(); ++t) {
            CAPTURE(static_cast<int>(estimator), static_cast<int>(dialect), variant, i, t);
            // Sums over a sample's tokens cancel: a rounding of binary64 may show beside one.
            REQUIRE(std::fabs(b.targets[i].advantages[t] - want[i][t]) <=
                    0.501L * std::fabs(want[i][t]) * 0x1p-23L + 1e-14L);
          }
        }
      }
    }
  }
}

TEST_CASE("the order of the samples changes no bit of an advantage") {
  // Their sum depends on the order in which it is taken.
  const double rewards[] = {1e16, 1, -1e16, 2, 3, 1};
  for (const auto estimator : {Estimator::kGrpo, Estimator::kPolicyGradient}) {
    Batch b = random_batch(8);
    for (size_t i = 0; i < 6; ++i) {
      b.samples[i].reward = rewards[i];
      b.samples[i].group = 0;
      auto& mask = b.samples[i].loss_mask;
      for (size_t t = 0; t < mask.size(); ++t) mask[t] = t == 0 ? 1 : 0;
    }
    Batch other = b;
    std::reverse(other.samples.begin(), other.samples.end());
    std::reverse(other.targets.begin(), other.targets.end());
    AdvantageConfig a;
    a.estimator = estimator;
    a.normalize_advantages = estimator == Estimator::kPolicyGradient;
    set_advantages(a, b.samples, b.targets);
    set_advantages(a, other.samples, other.targets);
    for (size_t i = 0; i < 6; ++i) {
      REQUIRE(b.targets[i].advantages == other.targets[5 - i].advantages);
    }
  }
}

TEST_CASE("equal rewards give advantages of exactly 0, whitened too") {
  for (const Dialect dialect : kDialects) {
    for (const bool whiten : {false, true}) {
      Batch b = random_batch(9);
      // 0.1 + 0.1 + 0.1 is not 3 times 0.1: a plain mean would be a unit off.
      for (Sample& s : b.samples) s.reward = 0.1, s.group = s.id < 9 ? 0 : 1;
      AdvantageConfig a;
      a.dialect = dialect;
      a.normalize_advantages = whiten;
      set_advantages(a, b.samples, b.targets);
      for (const SampleTargets& t : b.targets) {
        for (const float x : t.advantages) REQUIRE(x == 0);
      }
      a.estimator = Estimator::kPolicyGradient;
      set_advantages(a, b.samples, b.targets);
      for (const SampleTargets& t : b.targets) {
        for (const float x : t.advantages) REQUIRE(x == (whiten ? 0.0f : 0.1f));
      }
    }
  }
}

TEST_CASE("a group of one: refused under slime's deviation, else as it is defined") {
  Batch b = random_batch(10);
  b.samples[2].group = 77;
  AdvantageConfig a;
  const auto set = [&] { set_advantages(a, b.samples, b.targets); };
  REQUIRE(refused(ErrorCode::kUsage, "sample 99", set));
  a.normalize_std = false;
  set();
  REQUIRE(b.targets[2].advantages[0] == 0);
  a.normalize_std = true;
  a.dialect = Dialect::kMiles;
  set();
  REQUIRE(b.targets[2].advantages[0] == 0);
  REQUIRE(b.targets[0].advantages[0] != 0);
  a.dialect = Dialect::kSlime;
  a.estimator = Estimator::kReinforcePlusPlusBaseline;
  set();
  REQUIRE(b.targets[2].advantages[0] == 0);
}

TEST_CASE("whitening over one unmasked token gives it 0, over none is refused") {
  Batch b = random_batch(12);
  for (Sample& s : b.samples) std::fill(s.loss_mask.begin(), s.loss_mask.end(), uint8_t{0});
  AdvantageConfig a;
  a.estimator = Estimator::kPolicyGradient;
  a.normalize_advantages = true;
  REQUIRE(refused(ErrorCode::kUsage, "every response token of the batch is masked",
                  [&] { set_advantages(a, b.samples, b.targets); }));
  b.samples[4].loss_mask[3] = 1;
  set_advantages(a, b.samples, b.targets);
  REQUIRE(b.targets[4].advantages[3] == 0);
  const double other = (b.samples[0].reward - b.samples[4].reward) * 1e4;  // over sqrt(1e-8)
  REQUIRE(b.targets[0].advantages[0] == Approx(other).epsilon(kBinary32));
}

TEST_CASE("rewards and KL that are not finite are refused, and so are missing columns") {
  AdvantageConfig a;
  for (const double reward : {std::nan(""), static_cast<double>(kInfinity), 1e300}) {
    Batch b = random_batch(13);
    b.samples[4].reward = reward;
    REQUIRE(refused(ErrorCode::kUsage, "reward of sample 41",
                    [&] { set_advantages(a, b.samples, b.targets); }));
  }
  a.estimator = Estimator::kReinforcePlusPlusBaseline;
  a.kl_coef = 0.1;
  Batch b = random_batch(13);
  b.targets[0].ref_log_probs[2] = -kInfinity;
  const auto set = [&] { set_advantages(a, b.samples, b.targets); };
  REQUIRE(refused(ErrorCode::kUsage, "sample 12", set));
  b.targets[0].ref_log_probs.clear();
  REQUIRE(refused(ErrorCode::kUsage, "--kl-coef", set));
}

TEST_CASE("a batch that lacks what the objective reads is refused with a sentence") {
  ObjectiveConfig o;
  o.kl_loss_coef = 0.1;
  o.tis = Tis{};
  const auto refuses = [&](ErrorCode code, const std::string& words, auto change) {
    Batch b = random_batch(14);
    b.samples[0].loss_mask.assign(5, 1);
    REQUIRE_NOTHROW(check_batch(o, b.samples, b.targets));
    change(b);
    return refused(code, words, [&] { check_batch(o, b.samples, b.targets); });
  };
  using E = ErrorCode;
  for (const float x : {kInfinity, -kInfinity, std::nanf("")}) {
    REQUIRE(refuses(E::kCorrupt, "advantage", [&](Batch& b) { b.targets[0].advantages[1] = x; }));
    REQUIRE(refuses(E::kCorrupt, "old log-probability ",
                    [&](Batch& b) { b.targets[0].old_log_probs[1] = x; }));
    REQUIRE(refuses(E::kCorrupt, "reference log-probability ",
                    [&](Batch& b) { b.targets[0].ref_log_probs[1] = x; }));
    REQUIRE(refuses(E::kCorrupt, "rollout log-probability ",
                    [&](Batch& b) { b.samples[0].rollout_log_probs[1] = x; }));
    const Sample s = random_batch(14).samples[4];
    const std::vector<float> bad(30, x), good(30, -1.0f);
    REQUIRE(refused(E::kCorrupt, "sample 41", [&] { check_scores(s, bad, good); }));
    REQUIRE(refused(E::kCorrupt, "entropy", [&] { check_scores(s, good, bad); }));
  }
  REQUIRE(refuses(E::kUsage, "0 values of the reference",
                  [](Batch& b) { b.targets[2].ref_log_probs.clear(); }));
  REQUIRE(refuses(E::kUsage, "rollout", [](Batch& b) { b.samples[2].rollout_log_probs.clear(); }));
  REQUIRE(refuses(E::kUsage, "old", [](Batch& b) { b.targets[2].old_log_probs.pop_back(); }));
  REQUIRE(refuses(E::kUsage, "loss mask", [](Batch& b) { b.samples[2].loss_mask.pop_back(); }));
  REQUIRE(refuses(E::kUsage, "0 and 1", [](Batch& b) { b.samples[2].loss_mask[0] = 2; }));
  REQUIRE(refuses(E::kUsage, "sample 7 is twice", [](Batch& b) { b.samples[2].id = 7; }));
  REQUIRE(refuses(E::kUsage, "prompt", [](Batch& b) { b.samples[2].prompt_length = 0; }));
  REQUIRE(refuses(E::kUsage, "targets for each", [](Batch& b) { b.targets.pop_back(); }));

  Batch b = random_batch(14);
  b.targets[5].advantages[0] = std::nanf("");  // masked
  b.targets[5].old_log_probs[0] = kInfinity;
  REQUIRE_NOTHROW(check_batch(o, b.samples, b.targets));
  Batch own = b;
  for (SampleTargets& t : own.targets) t.old_log_probs.clear();
  REQUIRE_NOTHROW(check_batch(o, own.samples, own.targets));
  b.targets[4].old_log_probs[0] = -kInfinity;
  b.samples[4].loss_mask[0] = 1;
  o.dialect = Dialect::kMiles;
  REQUIRE_NOTHROW(check_batch(o, b.samples, b.targets));
  o.kl_loss_coef = 0;
  o.tis.reset();
  for (Sample& s : b.samples) s.rollout_log_probs.clear();
  for (SampleTargets& t : b.targets) t.ref_log_probs.clear();
  REQUIRE_NOTHROW(check_batch(o, b.samples, b.targets));
}

#include <catch2/catch.hpp>

#include "src/objective/advantage.h"
#include "src/objective/batch_objective.h"
#include "tests/engine/objective_batch.h"

// What recipes choose besides GRPO's clip: policy losses over samples, corrections, trajectories,
// critics.
using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;
using formulas::Real;

TEST_CASE("GSPO, CISPO, OPSM and the unbiased KL: losses by their formulas, c by differences") {
  const Batch b = random_batch(15);
  size_t moved = 0, left_out = 0;
  for (int variant = 0; variant < 96; ++variant) {
    ObjectiveConfig o;
    constexpr PolicyLoss kLosses[] = {PolicyLoss::kSequence, PolicyLoss::kCispo, PolicyLoss::kClip};
    o.policy_loss = kLosses[variant % 3];
    o.dialect = o.policy_loss == PolicyLoss::kCispo ? Dialect::kSlime : kDialects[variant / 3 % 2];
    if (variant / 6 % 2 == 1) o.opsm_delta = 0.02;
    if (variant / 12 % 2 == 1) o.tis = Tis{0.9, 1.1};
    o.kl_loss_type = kKlTypes[variant / 24];
    o.kl_loss_coef = 0.2;
    o.unbiased_kl = variant % 2 == 0;
    o.entropy_coef = 0.01;
    if (variant % 5 == 0) o.eps_clip_c = 1.05;
    if (o.policy_loss == PolicyLoss::kSequence) o.eps_clip = o.eps_clip_high = 0.04;
    for (size_t i = 0; i < b.samples.size(); ++i) {
      std::vector<TokenInput> in =
          sample_input(b.samples[i], b.targets[i], 0.125, {b.log_probs[i], b.entropy[i]});
      std::vector<formulas::Token> fixed;
      for (const TokenInput& t : in) fixed.push_back(token(t));
      const std::vector<TokenTerms> got = sample_objective(o, in);
      const auto loss = [&](size_t place, Real h) {
        std::vector<formulas::Token> now = fixed;
        if (place < now.size()) now[place].log_prob += h;
        return formulas::sequence_loss(o, now, fixed, b.samples[i].loss_mask, 0.125L);
      };
      Real sum = 0;
      for (size_t t = 0; t < got.size(); ++t) {
        if (in[t].masked) continue;
        sum += 0.125L * got[t].total;
        left_out += o.opsm_delta && got[t].policy == 0 ? 1 : 0;
        const Real h = 1e-5L, up = loss(t, h), here = loss(t, 0), down = loss(t, -h);
        if (std::fabs((up - here) - (here - down)) > 1e-3L * h) continue;  // a kink lies between
        const Real want = (up - down) / (2 * h);
        CAPTURE(variant, i, t);
        REQUIRE(std::fabs(-got[t].c - want) <= 1e-7L * std::fabs(want) + 1e-9L);
        ++moved;
      }
      REQUIRE(std::fabs(sum - loss(got.size(), 0)) <= 1e-13L * (1 + std::fabs(sum)));
    }
  }
  CHECK(moved > 2000);
  CHECK(left_out > 100);
}

TEST_CASE("samples of one trajectory share a denominator and count once") {
  Batch b = random_batch(16);
  b.samples[0].trajectory = b.samples[2].trajectory = b.samples[4].trajectory = 7;
  const auto tokens = [&](size_t i) {
    return std::count(b.samples[i].loss_mask.begin(), b.samples[i].loss_mask.end(), uint8_t{1});
  };
  const double together = static_cast<double>(tokens(0) + tokens(2) + tokens(4));
  auto weights = sample_weights(Reducer::kSampleMean, b.samples);
  for (const size_t i : {0, 2, 4}) REQUIRE(weights[i] == 1 / (together * 4));
  REQUIRE(weights[1] == 1 / (std::max(1.0, static_cast<double>(tokens(1))) * 4));
  // The id of a trajectory is none of a sample: sample 7 stays its own.
  REQUIRE(b.samples[1].id == 7);
  const auto by_token = sample_weights(Reducer::kTokenMean, b.samples);
  for (Sample& s : b.samples) s.trajectory.reset();
  REQUIRE(sample_weights(Reducer::kTokenMean, b.samples) == by_token);
  REQUIRE(sample_weights(Reducer::kSampleMean, b.samples, 3)[0] ==
          1 / (static_cast<double>(tokens(0)) * 3));
  b.samples[0].trajectory_tokens = 50;
  REQUIRE(sample_weights(Reducer::kSampleMean, b.samples)[0] == 1 / (50.0 * 6));
}

TEST_CASE("Miles normalizes one reward a trajectory, slime one a sample") {
  Batch b = random_batch(17);
  for (Sample& s : b.samples) s.group = 0;
  const double rewards[] = {1, 1, 0, 0, 1, 0};
  for (size_t i = 0; i < 6; ++i) b.samples[i].reward = rewards[i];
  b.samples[0].trajectory = b.samples[1].trajectory = b.samples[4].trajectory = 1;
  AdvantageConfig a;
  a.normalize_std = false;
  REQUIRE(shaped_rewards(a, b.samples) == std::vector<double>{0.5, 0.5, -0.5, -0.5, 0.5, -0.5});
  a.dialect = Dialect::kMiles;
  REQUIRE(shaped_rewards(a, b.samples) ==
          std::vector<double>{0.75, 0.75, -0.25, -0.25, 0.75, -0.25});
  b.samples[4].reward = 0;
  REQUIRE(refused(ErrorCode::kUsage, "trajectory", [&] { shaped_rewards(a, b.samples); }));
}

TEST_CASE("slime takes all samples for one group where a trajectory has several") {
  Batch b = random_batch(17);
  for (size_t i = 0; i < 6; ++i) {
    b.samples[i].group = i / 3;
    b.samples[i].reward = i / 3 == 0 ? 1 : 0;
    b.samples[i].trajectory = i;
  }
  AdvantageConfig a;
  a.normalize_std = false;
  REQUIRE(shaped_rewards(a, b.samples) == std::vector<double>(6, 0.0));
  b.samples[5].trajectory = 4;
  REQUIRE(shaped_rewards(a, b.samples) == std::vector<double>{0.5, 0.5, 0.5, -0.5, -0.5, -0.5});
}

TEST_CASE("the value loss is the larger square, and moves where its value does") {
  const auto same = [](ValueTerms x, double loss, double derivative, bool clipped) {
    return x.loss == loss && x.derivative == derivative && x.clipped == clipped;
  };
  REQUIRE(same(value_objective(0.25, 1.125f, 1, 0.5f), 0.390625, 1.25, false));
  REQUIRE(same(value_objective(0.25, 2, 1, 0.5f), 2.25, 3, true));
  REQUIRE(same(value_objective(0.25, 2, 1, 3), 3.0625, 0, true));
  REQUIRE(same(value_objective(0.25, 1, 1, 3), 4, -4, false));
}

TEST_CASE("KL that has no weight is computed where it is asked for, and adds nothing") {
  TokenInput t;
  t.log_prob = -1;
  t.old_log_prob = -1;
  t.ref_log_prob = -3;
  t.weight = 0.5;
  t.advantage = 0;
  ObjectiveConfig o;
  REQUIRE(token_objective(o, t).kl == 0);
  const TokenTerms without = token_objective(o, t);
  o.kl_loss = true;
  REQUIRE(token_objective(o, t).kl == 2);
  REQUIRE(token_objective(o, t).total == without.total);
  REQUIRE(token_objective(o, t).c == without.c);
}

TEST_CASE("REINFORCE++ refuses a sample without a token that counts, GAE one without values") {
  Batch b = random_batch(18);
  AdvantageConfig a;
  a.estimator = Estimator::kReinforcePlusPlus;
  const auto set = [&] { set_advantages(a, b.samples, b.targets); };
  REQUIRE(refused(ErrorCode::kUsage, "masked throughout", set));
  a.estimator = Estimator::kPpo;
  REQUIRE_NOTHROW(set());
  b.targets[4].values.pop_back();
  REQUIRE(refused(ErrorCode::kUsage, "the critic", set));
}

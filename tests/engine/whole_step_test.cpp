#include <catch2/catch.hpp>

#include "src/engine/rotary.h"
#include "src/engine/torch/operators.h"
#include "src/engine/torch/run_model.h"
#include "src/engine/transformer.h"
#include "tests/engine/models.h"
#include "tests/engine/objective_formulas.h"
#include "tests/environment.h"

// Whole steps on random models of odd sizes against the same model on ATen with autograd, in
// float64; its float32 is the yardstick.
using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;
using formulas::Real;
using formulas::ulps;
using kernels::test::allowed;
using kernels::test::relative_l2;

namespace {

const std::vector<int64_t> kLengths{37, 65, 130, 5, 2, 91};

/// Each option of the objective in at least one.
std::vector<ObjectiveConfig> objectives() {
  ObjectiveConfig all;  // clip, dual clip, entropy, KL in the loss, truncated importance sampling
  all.eps_clip_high = 0.28;
  all.eps_clip_c = 1.5;
  all.entropy_coef = 0.01;
  all.kl_loss_coef = 0.05;
  all.kl_loss_type = KlType::kK3;
  all.tis = Tis{};
  ObjectiveConfig miles = all;
  miles.dialect = Dialect::kMiles;
  miles.reducer = Reducer::kTokenMean;
  miles.kl_loss_type = KlType::kLowVar;
  ObjectiveConfig plain;
  plain.policy_loss = PolicyLoss::kPlain;
  plain.kl_loss_coef = 0.1;
  plain.kl_loss_type = KlType::kK2;
  ObjectiveConfig k1;
  k1.reducer = Reducer::kTokenMean;
  k1.kl_loss_coef = 0.1;
  k1.kl_loss_type = KlType::kK1;
  return {ObjectiveConfig{}, all, miles, plain, k1};
}

StepConfig step_config(const ObjectiveConfig& objective, float temperature) {
  StepConfig out;
  out.objective = objective;
  out.train.temperature = temperature;
  out.optimizer.weight_decay = 0.1;
  out.optimizer.beta2 = 0.98;
  out.lr = 1e-3;
  return out;
}

std::vector<float> copy(const Buffer<float>& b) { return {b.data(), b.data() + b.size()}; }

/// A model with its batch, whose log-probabilities lie around the model's own.
struct Case {
  ModelConfig config;
  ThreadPool pool{2};
  Runtime runtime{kernels::cpu_kernels(), pool};
  kernels::RotaryTable table;
  TrainState state;
  Gradients gradients;
  Batch batch;

  explicit Case(const ModelConfig& c)
      : config(c),
        table(make_rotary_table(c, kernels::Rope::kExact, 256, pool)),
        state(c),
        gradients(state.model.parameters()),
        batch(random_batch(c, kLengths, 3)) {
    fill_weights(state.model.parameters(), state.model.weights(), 7);
    state.model.pack(runtime, PackedFor::kTraining);
    Random random(17);
    for (size_t i = 0; i < batch.samples.size(); ++i) {
      const Sample* sample = &batch.samples[i];
      const Scores own = score({runtime, state.model, view(table)}, {&sample, 1}, 1);
      SampleTargets& t = batch.targets[i];
      for (size_t j = 0; j < own.log_probs.size(); ++j) {
        t.old_log_probs[j] = own.log_probs[j] + 0.3f * random.normal();
        t.ref_log_probs[j] = own.log_probs[j] + 0.3f * random.normal();
        batch.samples[i].rollout_log_probs[j] = t.old_log_probs[j] + 0.3f * random.normal();
      }
    }
  }
  StepResult step(const StepConfig& s) {
    return run_step(runtime, state, gradients, view(table), batch.samples, batch.targets, s);
  }
  /// The same model and batch on ATen, from the weights as they are.
  aten::ModelOutput oracle(const StepConfig& s, aten::Precision precision) {
    aten::ModelInput in;
    in.config = &config;
    in.parameters = &state.model.parameters();
    const std::vector<float> weights = copy(state.model.weights());
    in.weights = weights;
    in.samples = batch.samples;
    in.targets = batch.targets;
    in.objective = s.objective;
    in.temperature = s.train.temperature;
    return aten::run_model(in, precision);
  }
};

std::vector<double> part(const std::vector<double>& all, const Parameter& p) {
  return {all.begin() + p.offset, all.begin() + p.offset + p.size()};
}

std::vector<double> gradient_values(const Gradients& gradients) {
  std::vector<double> out;
  for (size_t i = 0; i < gradients.sums().size(); ++i) {
    out.push_back(std::ldexp(static_cast<double>(gradients.sums()[i]), -gradients.scale()));
  }
  return out;
}

/// Losses from the engine's own log-probabilities and entropies, by the formulas.
void check_losses(const Case& c, const ObjectiveConfig& o, const StepResult& got) {
  const auto token = [&](size_t i, size_t t) {
    const SampleTargets& x = c.batch.targets[i];
    return formulas::Token{got.scores[i].log_probs[t],
                           got.scores[i].entropy[t],
                           x.old_log_probs[t],
                           x.ref_log_probs[t],
                           c.batch.samples[i].rollout_log_probs[t],
                           x.advantages[t]};
  };
  const auto reduced = [&](auto value) {
    return formulas::reduced(o.reducer, c.batch.samples,
                             [&](size_t i, size_t t) -> Real { return value(token(i, t)); });
  };
  CHECK(ulps<float>(got.losses.total, reduced([&](auto t) { return formulas::total(o, t); })) <= 4);
  CHECK(ulps<float>(got.losses.policy, reduced([&](auto t) { return formulas::policy(o, t); })) <=
        4);
  CHECK(ulps<float>(got.losses.entropy, reduced([](auto t) { return t.entropy; })) <= 4);
  const Real kl = o.kl_loss_coef == 0 ? 0 : reduced([&](auto t) {
    return formulas::kl(o.kl_loss_type, o.dialect, t.log_prob, t.ref);
  });
  CHECK(ulps<float>(got.losses.kl, kl) <= 4);
}

/// Every element of m, v and w against the formula in extended precision, from the exact sums.
void check_update(const Case& c, const StepConfig& s, const StepResult& got,
                  const std::vector<float>& m0, const std::vector<float>& v0,
                  const std::vector<float>& w0) {
  const auto& o = s.optimizer;
  Real squares = 0;
  for (size_t i = 0; i < c.gradients.sums().size(); ++i) {
    const Real g = std::ldexp(static_cast<Real>(c.gradients.sums()[i]), -c.gradients.scale());
    squares += g * g;
  }
  CHECK(ulps<double>(got.grad_norm, std::sqrt(squares)) <= 4);
  const Real clip = std::min(Real{1}, o.clip_grad / (std::sqrt(squares) + 1e-6L));
  CHECK(ulps<float>(got.clip_scale, clip) <= 4);
  const Real bias1 = 1 - std::pow(Real{o.beta1}, static_cast<Real>(c.state.step));
  const Real bias2 = 1 - std::pow(Real{o.beta2}, static_cast<Real>(c.state.step));
  double worst = 0;
  for (const Parameter& p : c.state.model.parameters().list) {
    const Real decay = p.is_vector() ? 0 : Real{o.weight_decay};
    for (auto i = static_cast<size_t>(p.offset); i < static_cast<size_t>(p.offset + p.size());
         ++i) {
      const Real g = std::ldexp(static_cast<Real>(c.gradients.sums()[i]), -c.gradients.scale()) *
                     got.clip_scale;
      const Real m = o.beta1 * m0[i] + (1 - Real{o.beta1}) * g;
      const Real v = o.beta2 * v0[i] + (1 - Real{o.beta2}) * g * g;
      const Real w =
          w0[i] - s.lr * decay * w0[i] - s.lr * (m / bias1) / (std::sqrt(v / bias2) + Real{o.eps});
      worst = std::max({worst, ulps<float>(c.state.moments.first[i], m),
                        ulps<float>(c.state.moments.second[i], v),
                        ulps<float>(const_cast<Case&>(c).state.model.weights()[i], w)});
    }
  }
  CHECK(worst <= 4);
}

/// What an update adds to the weights, on ATen: gradients, clipping by their norm, AdamW.
std::vector<double> oracle_update(const Case& c, const StepConfig& s, const aten::ModelOutput& out,
                                  const std::vector<float>& m0, const std::vector<float>& v0,
                                  const std::vector<float>& w0, aten::Precision precision) {
  double squares = 0;
  for (const double g : out.gradients) squares += g * g;
  const double clip =
      std::min(1.0, static_cast<double>(s.optimizer.clip_grad) / (std::sqrt(squares) + 1e-6));
  std::vector<double> change;
  for (const Parameter& p : c.state.model.parameters().list) {
    const auto array = [&](const auto& all) {
      aten::Array a{{p.size()}, {}};
      for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        a.values.push_back(static_cast<double>(all[static_cast<size_t>(i)]));
      }
      return a;
    };
    aten::Array g = array(out.gradients);
    for (double& x : g.values) x *= clip;
    const aten::Array w = array(w0);
    const auto after = aten::adamw(
        g, array(m0), array(v0), w, s.lr, s.optimizer.beta1, s.optimizer.beta2, s.optimizer.eps,
        p.is_vector() ? 0.0 : s.optimizer.weight_decay, c.state.step, precision);
    for (size_t i = 0; i < w.values.size(); ++i) {
      change.push_back(after.w.values[i] - w.values[i]);
    }
  }
  return change;
}

void check_step(Case& c, const StepConfig& s) {
  const std::vector<float> w = copy(c.state.model.weights()), m = copy(c.state.moments.first),
                           v = copy(c.state.moments.second);
  const aten::ModelOutput want = c.oracle(s, aten::Precision::kFloat64);
  const aten::ModelOutput stock = c.oracle(s, aten::Precision::kFloat32);
  const StepResult got = c.step(s);
  std::vector<float> log_probs, entropy;
  for (const Scores& x : got.scores) {
    log_probs.insert(log_probs.end(), x.log_probs.begin(), x.log_probs.end());
    entropy.insert(entropy.end(), x.entropy.begin(), x.entropy.end());
  }
  const auto judge = [](const auto& ours, const auto& theirs, const auto& exact, double factor) {
    CHECK(relative_l2(ours, exact) <= factor * allowed(relative_l2(theirs, exact)));
  };
  judge(log_probs, stock.log_probs, want.log_probs, 1);
  judge(entropy, stock.entropy, want.entropy, 1);
  const std::vector<double> gradients = gradient_values(c.gradients);
  for (const Parameter& p : c.state.model.parameters().list) {
    CAPTURE(p.name);
    judge(part(gradients, p), part(stock.gradients, p), part(want.gradients, p), 1);
  }
  check_losses(c, s.objective, got);
  check_update(c, s, got, m, v, w);
  std::vector<double> change;
  for (size_t i = 0; i < w.size(); ++i) {
    change.push_back(static_cast<double>(c.state.model.weights()[i]) - static_cast<double>(w[i]));
  }
  judge(change, oracle_update(c, s, stock, m, v, w, aten::Precision::kFloat32),
        oracle_update(c, s, want, m, v, w, aten::Precision::kFloat64), 2);
}

}  // namespace

TEST_CASE("whole steps: log-probabilities, losses, every gradient and every update") {
  aten::set_threads(1);  // for matrices this small a team of threads only waits
  const std::vector<ObjectiveConfig> all = objectives();
  size_t models = 0;
  for (const auto architecture :
       {Architecture::kLlama, Architecture::kQwen2, Architecture::kQwen3}) {
    for (const bool tied : {false, true}) {
      // Two objectives a model, one of them with everything; all with RLREPLAY_FULL=1.
      const size_t other = ++models % all.size();
      for (size_t number = 0; number < all.size(); ++number) {
        if (number != 1 && number != other && !rlreplay::test::full()) continue;
        CAPTURE(name(architecture), tied, number);
        const StepConfig s = step_config(all[number], number == 1 ? 0.7f : 1.0f);
        Case c(odd_model(architecture, tied));
        check_step(c, s);
        if (number == 1 && tied) check_step(c, s);  // with moments and changed weights
      }
    }
  }
}

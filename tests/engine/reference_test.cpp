#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "format/foreign/checkpoint.h"
#include "format/foreign/float_values.h"
#include "src/base/json_value.h"
#include "src/engine/rollout.h"
#include "src/engine/step.h"
#include "tests/environment.h"
#include "tests/kernels/support.h"

// Small checkpoints with the numbers that transformers and torch autograd get from them in float64.
using namespace rlreplay;
using namespace rlreplay::engine;
using kernels::test::allowed;
using kernels::test::relative_l2;

namespace {

class Reference {
 public:
  explicit Reference(const std::string& folder)
      : tensors_(folder + "/expected.safetensors"),
        document_(JsonDocument::read(folder + "/expected.json")) {}

  template <class T>
  std::vector<T> values(const std::string& name) const {
    const foreign::StoredTensor* tensor = tensors_.find(name);
    REQUIRE(tensor != nullptr);
    REQUIRE(tensor->data.size() % sizeof(T) == 0);
    std::vector<T> out(tensor->data.size() / sizeof(T));
    std::memcpy(out.data(), tensor->data.data(), tensor->data.size());
    return out;
  }
  /// Names of the expected tensors that begin with `prefix`.
  std::vector<std::string> names(const std::string& prefix) const {
    std::vector<std::string> out;
    for (const auto& t : tensors_.tensors()) {
      if (t.name.rfind(prefix, 0) == 0) out.push_back(t.name);
    }
    return out;
  }
  /// The relative l2 error of stock transformers in float32, with the same angles.
  double stock_error(const std::string& name, kernels::Rope rope) const {
    const bool exact = rope == kernels::Rope::kExact;
    const char* key = exact ? "torch_fp32_exact_rope_error" : "torch_fp32_error";
    return document_.root()["tensors"][name][key]["rel_l2"].number();
  }

 private:
  foreign::SafetensorsFile tensors_;
  JsonDocument document_;
};

struct Loaded {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
};

Loaded load_batch(const Reference& ref) {
  const auto tokens = ref.values<int64_t>("tokens"), offsets = ref.values<int64_t>("offsets");
  const auto prompts = ref.values<int64_t>("prompt_lens");
  const auto responses = ref.values<int64_t>("response_offsets");
  const auto mask = ref.values<int32_t>("loss_mask");
  const auto advantages = ref.values<float>("advantages");
  const auto old = ref.values<float>("old_log_probs"), base = ref.values<float>("ref_log_probs");
  Loaded out;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    Sample s;
    s.id = i;
    s.prompt_length = prompts[i];
    for (int64_t p = offsets[i]; p < offsets[i + 1]; ++p) {
      s.tokens.push_back(static_cast<int32_t>(tokens[static_cast<size_t>(p)]));
    }
    SampleTargets t;
    for (auto j = static_cast<size_t>(responses[i]); j < static_cast<size_t>(responses[i + 1]);
         ++j) {
      s.loss_mask.push_back(static_cast<uint8_t>(mask[j]));
      t.advantages.push_back(advantages[j]);
      t.old_log_probs.push_back(old[j]);
      t.ref_log_probs.push_back(base[j]);
    }
    out.samples.push_back(std::move(s));
    out.targets.push_back(std::move(t));
  }
  return out;
}

StepConfig step_config() {
  StepConfig out;
  out.objective.eps_clip_high = 0.28;
  out.objective.entropy_coef = 0.01;
  out.objective.kl_loss_coef = 0.05;
  out.objective.kl_loss_type = KlType::kLowVar;
  out.optimizer.beta2 = 0.95;
  out.optimizer.weight_decay = 0.1;
  out.lr = 1e-4;
  return out;
}

const Parameter& parameter(const ParameterTable& table, const std::string& name) {
  for (const Parameter& p : table.list) {
    if (p.name == name) return p;
  }
  FAIL("no parameter " << name);
  return table.list.front();
}

std::vector<double> gradient(const Gradients& gradients, const Parameter& p) {
  std::vector<double> out;
  for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
    out.push_back(std::ldexp(static_cast<double>(gradients.sums()[static_cast<size_t>(i)]),
                             -gradients.scale()));
  }
  return out;
}

/// A checkpoint in the engine, with its expected numbers.
struct Case {
  ThreadPool pool{2};
  Runtime runtime{kernels::cpu_kernels(), pool};
  Reference reference;
  foreign::Checkpoint checkpoint;
  kernels::Rope rope;
  kernels::RotaryTable table;
  TrainState state;

  Case(const std::string& folder, kernels::Rope r)
      : reference(folder),
        checkpoint(foreign::Checkpoint::open(folder)),
        rope(r),
        table(make_rotary_table(checkpoint.config(), r, 1024, pool)),
        state(checkpoint.config()) {
    for (const Parameter& p : state.model.parameters().list) {
      foreign::to_float(checkpoint.tensor(p.name),
                        {state.model.weights().data() + p.offset, static_cast<size_t>(p.size())});
    }
    state.model.pack(runtime, PackedFor::kTraining);
  }
  RotaryView rotary() const { return view(table); }
  double limit(const std::string& name) const { return allowed(reference.stock_error(name, rope)); }

  /// Whether `got` is near enough to the expected vector `name`.
  template <class Values>
  void check_vector(const std::string& name, const Values& got) {
    CAPTURE(name);
    const double error = relative_l2(got, reference.values<double>(name));
    CHECK(error <= limit(name));
    shares.push_back(error / reference.stock_error(name, rope));
  }
  std::vector<double> shares;  // of stock's errors
};

/// What the errors are in stock's, on average and at most.
std::string summary(const std::vector<double>& shares) {
  double logs = 0;
  for (const double share : shares) logs += std::log(share);
  char line[100];
  std::snprintf(line, sizeof line, "%.2f of stock's errors on average, %.2f at most",
                std::exp(logs / static_cast<double>(shares.size())),
                *std::max_element(shares.begin(), shares.end()));
  return line;
}

/// The weights after three updates, all parameters together: AdamW's first updates have nearly the
/// size of the rate, so a gradient next to zero moves its own weight by rounding alone.
void check_weights(Case& c) {
  const std::string prefix = "weights.step3.full.";
  double error = 0, stock = 0;
  for (const std::string& name : c.reference.names(prefix)) {
    const Parameter& p = parameter(c.state.model.parameters(), name.substr(prefix.size()));
    const float* w = c.state.model.weights().data() + p.offset;
    const auto want = c.reference.values<double>(name);
    double norm = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      error += std::pow(static_cast<double>(w[i]) - want[i], 2);
      norm += want[i] * want[i];
    }
    stock += std::pow(c.reference.stock_error(name, c.rope), 2) * norm;
  }
  CHECK(std::sqrt(error) <= 4 * std::sqrt(stock));
}

void check_training(Case& c) {
  const Loaded batch = load_batch(c.reference);
  const StepConfig config = step_config();
  Gradients gradients(c.state.model.parameters());
  const auto step = [&] {
    return run_step(c.runtime, c.state, gradients, c.rotary(), batch.samples, batch.targets,
                    config);
  };
  const StepResult first = step();
  std::vector<float> log_probs, entropy, ratio, policy, kl;
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const Scores& s = first.scores[i];
    log_probs.insert(log_probs.end(), s.log_probs.begin(), s.log_probs.end());
    entropy.insert(entropy.end(), s.entropy.begin(), s.entropy.end());
    for (const TokenTerms& t : first.terms[i]) {
      ratio.push_back(t.ratio);
      policy.push_back(t.policy);
      kl.push_back(t.kl);
    }
  }
  c.check_vector("log_probs", log_probs);
  c.check_vector("entropy", entropy);
  c.check_vector("objective.ratio", ratio);
  c.check_vector("objective.pg", policy);
  c.check_vector("objective.kl", kl);
  const std::string prefix = "grad.full.";
  for (const std::string& name : c.reference.names(prefix)) {
    const Parameter& p = parameter(c.state.model.parameters(), name.substr(prefix.size()));
    c.check_vector(name, gradient(gradients, p));
  }
  std::vector<double> norms{first.grad_norm}, losses{first.losses.total};
  for (int i = 1; i < 3; ++i) {
    const StepResult next = step();
    norms.push_back(next.grad_norm);
    losses.push_back(next.losses.total);
  }
  c.check_vector("grad_norm", norms);
  std::vector<double> totals;
  const auto all = c.reference.values<double>("losses_of_steps");
  for (size_t i = 3; i < all.size(); i += 4) totals.push_back(all[i]);
  CHECK(relative_l2(losses, totals) <= 4 * c.limit("losses_of_steps"));
  check_weights(c);
}

void check_greedy(Case& c) {
  const auto tokens = c.reference.values<int64_t>("generate.prompt_tokens");
  const auto offsets = c.reference.values<int64_t>("generate.prompt_offsets");
  const auto want = c.reference.values<int64_t>("generate.tokens");
  std::vector<Request> requests;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    requests.push_back({i, i, {tokens.begin() + offsets[i], tokens.begin() + offsets[i + 1]}});
  }
  RolloutConfig config;
  config.sampling.temperature = 0;
  config.max_response = static_cast<int64_t>(want.size() / requests.size());
  const auto got = rollout({c.runtime, c.state.model, c.rotary()}, requests, config);
  std::vector<int64_t> ids;
  std::vector<float> log_probs;
  for (const Sample& s : got) {
    ids.insert(ids.end(), s.tokens.begin() + s.prompt_length, s.tokens.end());
    log_probs.insert(log_probs.end(), s.rollout_log_probs.begin(), s.rollout_log_probs.end());
  }
  CHECK(ids == want);
  c.check_vector("generate.log_prob", log_probs);
}

}  // namespace

TEST_CASE("checkpoints give the numbers of transformers in float64") {
  const auto folder = rlreplay::test::reference_folder();
  if (!folder) {
    std::cout << "skipped: RLREPLAY_REFERENCE names no folder of reference checkpoints\n";
    return;
  }
  for (const auto* model : {"tiny-qwen2", "tiny-qwen3", "tiny-llama"}) {
    for (const auto rope : {kernels::Rope::kExact, kernels::Rope::kHf}) {
      CAPTURE(model, to_string(rope));
      Case c(*folder + "/models/" + model, rope);
      check_greedy(c);
      check_training(c);
      std::cout << model << ", rope=" << to_string(rope) << ": " << summary(c.shares) << "\n";
    }
  }
}

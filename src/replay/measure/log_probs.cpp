#include "src/replay/measure/log_probs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "src/replay/record/recorded_step.h"

namespace rlreplay::measure {
namespace {

using replay::RecordedRollout;
using replay::RecordedRun;
using replay::RecordedStep;

/// The sample with what places and counts its tokens alone: id, mask and lengths.
Sample outline(const Sample& sample) {
  Sample out;
  out.id = sample.id;
  out.tokens.resize(sample.tokens.size());
  out.prompt_length = sample.prompt_length;
  out.loss_mask = sample.loss_mask;
  return out;
}

void add_samples(const RecordedStep& step, StepLogProbs& out) {
  if (!step.log_probs) return;
  for (const size_t i : by_id(step.samples)) {
    if ((*step.log_probs)[i].empty()) continue;
    out.samples.push_back(outline(step.samples[i]));
    out.log_probs.push_back(replay::narrowed((*step.log_probs)[i]));
  }
}

/// Whether two steps have log-probabilities of the same tokens.
bool same_samples(const StepLogProbs& good, const StepLogProbs& bad) {
  return std::ranges::equal(good.samples, bad.samples, {}, &Sample::id, &Sample::id) &&
         std::ranges::equal(good.log_probs, bad.log_probs, {}, &std::vector<float>::size,
                            &std::vector<float>::size);
}

/// What comparing the steps of two runs has found so far.
struct Comparison {
  Difference worst;  // of the first step that is beyond the tolerance
  bool differs = false;
};

/// How far apart, of a step that differs; a NaN or infinity on one side is infinitely far away.
void add_worst(const StepLogProbs& good, const StepLogProbs& bad, bool nonfinite,
               Difference& worst) {
  worst.log_probs = compare_log_probs(good.samples, good.log_probs, bad.log_probs);
  worst.bad.number = nonfinite ? std::numeric_limits<double>::infinity() : worst.log_probs->max;
}

void compare_step(const StepLogProbs& good, const StepLogProbs& bad, double tolerance,
                  const std::string& step, size_t ordinal, Comparison& result) {
  bool differs = false, nonfinite = false;
  for (size_t i = 0; i < good.samples.size(); ++i) {
    for (size_t t = 0; t < good.log_probs[i].size(); ++t) {
      if (good.samples[i].loss_mask[t] == 0) continue;
      ++result.worst.compared;
      const MetricValue a{good.log_probs[i][t]}, b{bad.log_probs[i][t]};
      if (agree(a, b, tolerance)) continue;
      ++result.worst.different;
      differs = true;
      nonfinite = nonfinite || a.nonfinite() || b.nonfinite();
    }
  }
  if (!differs || result.differs) return;
  result.differs = true;
  result.worst.step = ordinal;
  result.worst.step_name = step;
  add_worst(good, bad, nonfinite, result.worst);
}

}  // namespace

std::string tokens_hash(const RecordedRun& run, int64_t rollout) {
  const std::string group = std::to_string(rollout);
  std::string hash;
  for (const format::UnitRecord* unit : run.dump().find("rollout", group)) {
    const format::UnitReader reader = run.dump().open_unit(*unit);
    const format::StoredDataset* tokens = reader.find(group + "/tokens");
    if (tokens != nullptr) hash += tokens->hash.hex();
  }
  return hash;
}

std::vector<StepLogProbs> read_log_probs(const RecordedRun& run) {
  std::vector<StepLogProbs> steps;
  std::optional<RecordedRollout> rollout;
  std::string tokens;
  for (const StepId& id : run.steps()) {
    if (!rollout || rollout->id != id.rollout) {
      rollout = read_recorded_rollout(run, id.rollout);
      tokens = tokens_hash(run, id.rollout);
    }
    StepLogProbs& step = steps.emplace_back(StepLogProbs{std::to_string(id.rollout), tokens});
    add_samples(*std::ranges::find(rollout->steps, id, &RecordedStep::id), step);
  }
  return steps;
}

Judgement judge_log_probs(const Criterion& criterion, const Measurement& reference,
                          const Measurement& measurement) {
  Comparison result;
  result.worst.metric = kForwardLogpMaxDiff;
  std::string obstacle;
  for (size_t i = 0; i < reference.steps.size() && obstacle.empty(); ++i) {
    const StepLogProbs &good = reference.log_probs.at(i), &bad = measurement.log_probs.at(i);
    if (good.tokens != bad.tokens) {
      obstacle = "the tokens of rollout " + good.rollout + " are not the reference's";
    } else if (!same_samples(good, bad)) {
      obstacle = "step " + reference.steps[i] + " trained on other samples than the reference";
    } else {
      compare_step(good, bad, criterion.tolerance, reference.steps[i], i, result);
    }
  }
  if (result.differs) return {Verdict::kBad, result.worst.describe(), result.worst};
  if (!obstacle.empty()) return {Verdict::kSkip, obstacle};
  if (result.worst.compared == 0) {
    return {Verdict::kSkip, "the dumps hold no log-probabilities of a forward pass"};
  }
  return {Verdict::kGood, std::to_string(result.worst.compared) + " log-probabilities agree"};
}

double log_prob_distance(const Measurement& a, const Measurement& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.log_probs.size() != b.log_probs.size()) return kInfinity;
  double distance = 0;
  for (size_t i = 0; i < a.log_probs.size(); ++i) {
    const StepLogProbs &left = a.log_probs[i], &right = b.log_probs[i];
    if (left.tokens != right.tokens || !same_samples(left, right)) return kInfinity;
    Comparison step;
    compare_step(left, right, 0, "", i, step);
    if (step.differs) distance = std::max(distance, step.worst.bad.number);
  }
  return distance;
}

}  // namespace rlreplay::measure

#include "src/bisect/log_probs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "src/base/error.h"

namespace rlreplay::bisect {
namespace {

using format::TrainData;

/// A sample of a rank's data.
struct Place {
  const TrainData* data = nullptr;
  size_t sample = 0;

  size_t length() const { return data->offsets[sample + 1] - data->offsets[sample]; }
  double log_prob(size_t token) const { return data->log_probs->at(data->offsets[sample] + token); }
  bool counts(size_t token) const {
    return data->loss_mask->values[data->offsets[sample] + token] != 0;
  }
};

/// The samples with log-probabilities, by their ids.
std::map<uint64_t, Place> samples_of(const TrainData& data) {
  std::map<uint64_t, Place> places;
  if (!data.log_probs || !data.loss_mask) return places;
  for (size_t i = 0; i < data.size(); ++i) {
    if (data.log_probs->has(i)) places.try_emplace(data.sample_id[i], Place{&data, i});
  }
  return places;
}

/// Whose numbers are compared, step by step.
struct Comparison {
  Difference worst;  // of the first step that is beyond the tolerance
  bool differs = false;
  std::string obstacle;  // why a step cannot be compared
};

/// NaN agrees with NaN; on one side only, it is infinitely far away.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::fabs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

void compare_step(const std::map<uint64_t, Place>& good, const std::map<uint64_t, Place>& bad,
                  Comparison& result, double tolerance, const replay::StepId& step,
                  size_t ordinal) {
  double largest = 0;
  for (const auto& [id, a] : good) {
    const auto b = bad.find(id);
    if (b == bad.end() || a.length() != b->second.length() || good.size() != bad.size()) {
      result.obstacle = "step " + step.name() + " trained on other samples than the reference";
      return;
    }
    for (size_t t = 0; t < a.length(); ++t) {
      if (!a.counts(t)) continue;
      ++result.worst.compared;
      const double d = distance(a.log_prob(t), b->second.log_prob(t));
      if (d > tolerance) ++result.worst.different;
      largest = std::max(largest, d);
    }
  }
  if (!(largest > tolerance) || result.differs) return;
  result.differs = true;
  result.worst.step = ordinal;
  result.worst.step_name = step.name();
  result.worst.bad = largest;
}

}  // namespace

Judgement judge_log_probs(const Criterion& criterion, const replay::RecordedRun& reference,
                          const replay::RecordedRun& dump) {
  Comparison result;
  result.worst.metric = kForwardLogpMaxDiff;
  for (size_t i = 0; i < reference.steps().size() && result.obstacle.empty(); ++i) {
    const replay::StepId& step = reference.steps()[i];
    if (tokens_hash(reference, step.rollout) != tokens_hash(dump, step.rollout)) {
      result.obstacle =
          "the tokens of rollout " + std::to_string(step.rollout) + " are not the reference's";
      break;
    }
    const auto good = reference.train_data(step), bad = dump.train_data(step);
    compare_step(samples_of(good), samples_of(bad), result, criterion.tolerance, step, i);
  }
  if (result.differs) return {Verdict::kBad, result.worst.describe(), result.worst};
  if (!result.obstacle.empty()) return {Verdict::kSkip, result.obstacle};
  if (result.worst.compared == 0) {
    return {Verdict::kSkip, "the dumps hold no log-probabilities of a forward pass"};
  }
  return {Verdict::kGood, std::to_string(result.worst.compared) + " log-probabilities agree"};
}

}  // namespace rlreplay::bisect

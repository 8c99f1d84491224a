#include "src/bisect/log_probs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "src/replay/recorded_step.h"

namespace rlreplay::bisect {
namespace {

using replay::RecordedRollout;
using replay::RecordedRun;
using replay::RecordedStep;
using replay::StepId;

/// A sample of a step and its log-probabilities.
struct Place {
  const engine::Sample* sample = nullptr;
  const std::vector<float>* log_probs = nullptr;
};

/// The samples with log-probabilities, by their ids.
std::map<uint64_t, Place> samples_of(const RecordedStep& step) {
  std::map<uint64_t, Place> places;
  for (size_t i = 0; step.log_probs && i < step.samples.size(); ++i) {
    const std::vector<float>& values = (*step.log_probs)[i];
    if (!values.empty()) places.emplace(step.samples[i].id, Place{&step.samples[i], &values});
  }
  return places;
}

/// The steps of a dump, one rollout in memory at a time.
class Steps {
 public:
  explicit Steps(const RecordedRun& run) : run_(run) {}

  const RecordedStep& at(const StepId& id) {
    if (!rollout_ || rollout_->id != id.rollout) rollout_ = read_recorded_rollout(run_, id.rollout);
    return *std::ranges::find(rollout_->steps, id, &RecordedStep::id);
  }

 private:
  const RecordedRun& run_;
  std::optional<RecordedRollout> rollout_;
};

/// Whose numbers are compared, step by step.
struct Comparison {
  Difference worst;  // of the first step that is beyond the tolerance
  bool differs = false;
  std::string obstacle;  // why a step cannot be compared
};

/// NaN agrees with NaN; on one side only, it is infinitely far away.
double distance(float a, float b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::fabs(static_cast<double>(a) - static_cast<double>(b));
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

void compare_step(const std::map<uint64_t, Place>& good, const std::map<uint64_t, Place>& bad,
                  Comparison& result, double tolerance, const StepId& step, size_t ordinal) {
  double largest = 0;
  for (const auto& [id, a] : good) {
    const auto b = bad.find(id);
    if (b == bad.end() || a.log_probs->size() != b->second.log_probs->size() ||
        good.size() != bad.size()) {
      result.obstacle = "step " + step.name() + " trained on other samples than the reference";
      return;
    }
    for (size_t t = 0; t < a.log_probs->size(); ++t) {
      if (a.sample->loss_mask[t] == 0) continue;
      ++result.worst.compared;
      const double d = distance((*a.log_probs)[t], (*b->second.log_probs)[t]);
      if (d > tolerance) ++result.worst.different;
      largest = std::max(largest, d);
    }
  }
  if (!(largest > tolerance) || result.differs) return;
  result.differs = true;
  result.worst.step = ordinal;
  result.worst.step_name = step.name();
  result.worst.bad.number = largest;
}

}  // namespace

Judgement judge_log_probs(const Criterion& criterion, const RecordedRun& reference,
                          const RecordedRun& dump) {
  Comparison result;
  Steps good(reference), bad(dump);
  result.worst.metric = kForwardLogpMaxDiff;
  for (size_t i = 0; i < reference.steps().size() && result.obstacle.empty(); ++i) {
    const StepId& step = reference.steps()[i];
    if (tokens_hash(reference, step.rollout) != tokens_hash(dump, step.rollout)) {
      result.obstacle =
          "the tokens of rollout " + std::to_string(step.rollout) + " are not the reference's";
      break;
    }
    compare_step(samples_of(good.at(step)), samples_of(bad.at(step)), result, criterion.tolerance,
                 step, i);
  }
  if (result.differs) return {Verdict::kBad, result.worst.describe(), result.worst};
  if (!result.obstacle.empty()) return {Verdict::kSkip, result.obstacle};
  if (result.worst.compared == 0) {
    return {Verdict::kSkip, "the dumps hold no log-probabilities of a forward pass"};
  }
  return {Verdict::kGood, std::to_string(result.worst.compared) + " log-probabilities agree"};
}

}  // namespace rlreplay::bisect

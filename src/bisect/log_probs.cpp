#include "src/bisect/log_probs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "src/replay/record/recorded_step.h"

namespace rlreplay::bisect {
namespace {

using replay::RecordedRollout;
using replay::RecordedRun;
using replay::RecordedStep;
using replay::StepId;

/// What a rollout's tokens are known by; empty when they were not recorded.
std::string tokens_hash(const RecordedRun& run, int64_t rollout_id) {
  const std::string group = std::to_string(rollout_id);
  std::string hash;
  for (const format::UnitRecord* unit : run.dump().find("rollout", group)) {
    const format::UnitReader reader = run.dump().open_unit(*unit);
    const format::StoredDataset* tokens = reader.find(group + "/tokens");
    if (tokens != nullptr) hash += tokens->hash.hex();
  }
  return hash;
}

/// Where a sample with log-probabilities stands in its step.
using Places = std::map<uint64_t, size_t>;

Places places_of(const RecordedStep& step) {
  Places places;
  for (size_t i = 0; step.log_probs && i < step.samples.size(); ++i) {
    if (!(*step.log_probs)[i].empty()) places.emplace(step.samples[i].id, i);
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

/// The samples of a step, with the log-probabilities of both dumps.
struct Pairs {
  std::vector<Sample> samples;
  std::vector<std::vector<float>> good, bad;
};

/// Nothing where they are not of the same tokens.
std::optional<Pairs> pairs_of(const RecordedStep& good, const RecordedStep& bad) {
  const Places in_good = places_of(good), in_bad = places_of(bad);
  if (in_good.size() != in_bad.size()) return std::nullopt;
  Pairs pairs;
  for (const auto& [id, i] : in_good) {
    const auto at = in_bad.find(id);
    if (at == in_bad.end()) return std::nullopt;
    pairs.samples.push_back(good.samples[i]);
    pairs.good.push_back(replay::narrowed((*good.log_probs)[i]));
    pairs.bad.push_back(replay::narrowed((*bad.log_probs)[at->second]));
    if (pairs.good.back().size() != pairs.bad.back().size()) return std::nullopt;
  }
  return pairs;
}

/// How far apart, of a step that differs; a NaN or infinity on one side is infinitely far away.
void add_worst(const Pairs& pairs, bool nonfinite, const StepId& step, size_t ordinal,
               Difference& worst) {
  worst.step = ordinal;
  worst.step_name = step.name();
  worst.log_probs = compare_log_probs(pairs.samples, pairs.good, pairs.bad);
  worst.bad.number = nonfinite ? std::numeric_limits<double>::infinity() : worst.log_probs->max;
}

void compare_step(const Pairs& pairs, double tolerance, const StepId& step, size_t ordinal,
                  Comparison& result) {
  bool differs = false, nonfinite = false;
  for (size_t i = 0; i < pairs.samples.size(); ++i) {
    for (size_t t = 0; t < pairs.good[i].size(); ++t) {
      if (pairs.samples[i].loss_mask[t] == 0) continue;
      ++result.worst.compared;
      const MetricValue a{pairs.good[i][t]}, b{pairs.bad[i][t]};
      if (agree(a, b, tolerance)) continue;
      ++result.worst.different;
      differs = true;
      nonfinite = nonfinite || a.nonfinite() || b.nonfinite();
    }
  }
  if (!differs || result.differs) return;
  result.differs = true;
  add_worst(pairs, nonfinite, step, ordinal, result.worst);
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
    const auto pairs = pairs_of(good.at(step), bad.at(step));
    if (!pairs) {
      result.obstacle = "step " + step.name() + " trained on other samples than the reference";
      break;
    }
    compare_step(*pairs, criterion.tolerance, step, i, result);
  }
  if (result.differs) return {Verdict::kBad, result.worst.describe(), result.worst};
  if (!result.obstacle.empty()) return {Verdict::kSkip, result.obstacle};
  if (result.worst.compared == 0) {
    return {Verdict::kSkip, "the dumps hold no log-probabilities of a forward pass"};
  }
  return {Verdict::kGood, std::to_string(result.worst.compared) + " log-probabilities agree"};
}

}  // namespace rlreplay::bisect

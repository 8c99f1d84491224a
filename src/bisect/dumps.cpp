#include "src/bisect/dumps.h"

#include <algorithm>
#include <map>
#include <vector>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/bisect/log_probs.h"
#include "src/bisect/metrics.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::bisect {
namespace {

using replay::RecordedRun;
using replay::StepId;

RecordedRun open_ended(const std::string& path) {
  RecordedRun run(path);
  if (!run.dump().sealed() || !run.dump().complete()) {
    throw Error(ErrorCode::kIncomplete, "this dump was not recorded to its end", path);
  }
  return run;
}

/// A dump whose steps are judged: it holds some, of one rank.
RecordedRun open_whole(const std::string& path) {
  RecordedRun run = open_ended(path);
  if (run.steps().empty()) throw Error(ErrorCode::kIncomplete, "this dump holds no step", path);
  for (const StepId& step : run.steps()) {
    if (run.dump().find("train", step.group()).size() > 1) {
      throw Error(ErrorCode::kUnsupported,
                  "dumps of several ranks are not compared by this version", path);
    }
  }
  return run;
}

/// The events of a step; before those of a rollout's first step, the rollout's.
engine::StepEvents events_of(const RecordedRun& run, const StepId& step) {
  engine::StepEvents events = run.step_events(step);
  if (step.step == 0) events.prepend(run.rollout_events(step.rollout));
  return events;
}

/// The scalars of all steps, by name.
std::vector<Metric> scalars_of(const RecordedRun& run) {
  std::map<std::string, Metric> metrics;
  for (const StepId& step : run.steps()) {
    const format::NamedColumns scalars = run.scalars(step).agreed;  // of the only rank
    for (size_t i = 0; i < scalars.names.size(); ++i) {
      Metric& metric = metrics[scalars.names[i]];
      metric.name = scalars.names[i];
      metric.per_step = true;
      metric.values.push_back({scalars.values[i]});
      metric.step_names.push_back(step.name());
    }
  }
  std::vector<Metric> sorted;
  for (auto& [name, metric] : metrics) sorted.push_back(std::move(metric));
  return sorted;
}

constexpr const char* kWeights = "weights";

Judgement unreadable(const Error& error) {
  return {Verdict::kSkip, "the dump cannot be compared: " + error.where() + ": " + error.what()};
}

std::string metric_of(const Criterion& criterion) { return criterion.metric.value_or(kWeights); }

std::string weights_digest(const RecordedRun& dump, const StepId& step) {
  const auto events = events_of(dump, step);
  const bool recorded = std::any_of(events.events.begin(), events.events.end(), [](const auto& r) {
    return r.event.op == engine::Op::kWeight;
  });
  return recorded ? events.total(engine::Op::kWeight).hex() : "";
}

Judgement judge_weights(const RecordedRun& reference, const RecordedRun& dump) {
  for (const StepId& step : reference.steps()) {
    const std::string good = weights_digest(reference, step), bad = weights_digest(dump, step);
    if (good.empty() || bad.empty()) {
      return {Verdict::kSkip, "the weights after step " + step.name() + " were not recorded"};
    }
    if (good != bad) {
      return {Verdict::kBad, "weights after step " + step.name() + ": digest " + bad +
                                 " where the reference has " + good};
    }
  }
  return {Verdict::kGood,
          "the weights after " + counted(reference.steps().size(), "step") + " agree"};
}

/// The first step in which two dumps part, as a sentence; empty where they have the same.
std::string other_steps(const RecordedRun& reference, const RecordedRun& dump) {
  const auto& good = reference.steps();
  const auto& bad = dump.steps();
  for (size_t i = 0; i < std::max(good.size(), bad.size()); ++i) {
    if (i < good.size() && i < bad.size() && good[i] == bad[i]) continue;
    const auto name = [&](const std::vector<StepId>& steps) {
      return i < steps.size() ? steps[i].name() : "none";
    };
    return "the dump has other steps than the reference: as number " + std::to_string(i + 1) + " " +
           name(bad) + " (of " + std::to_string(bad.size()) + ") where the reference has " +
           name(good) + " (of " + std::to_string(good.size()) + ")";
  }
  return {};
}

Judgement judge_steps(const Criterion& criterion, const RecordedRun& reference,
                      const RecordedRun& dump) {
  if (const std::string other = other_steps(reference, dump); !other.empty()) {
    return {Verdict::kSkip, other};
  }
  if (metric_of(criterion) == kWeights) return judge_weights(reference, dump);
  if (metric_of(criterion) == kForwardLogpMaxDiff) {
    return judge_log_probs(criterion, reference, dump);
  }
  return judge_metrics(criterion, scalars_of(reference), scalars_of(dump));
}

}  // namespace

Judgement judge_reference_dump(const Criterion& criterion, const std::string& path) {
  try {
    const RecordedRun dump = open_whole(path);
    const std::string metric = metric_of(criterion);
    const auto scalars = scalars_of(dump);
    const std::string empty = emptiness_of(criterion, scalars);
    if (!empty.empty()) return {Verdict::kSkip, "it can be no reference: " + empty};
    if (metric == kWeights) return judge_weights(dump, dump);
    if (metric == kForwardLogpMaxDiff) return judge_log_probs(criterion, dump, dump);
    if (find_metric(scalars, metric) == nullptr) {
      return {Verdict::kSkip, "the dump has no " + metric + "; it has " + names_of(scalars)};
    }
    return {Verdict::kGood, "the reference"};
  } catch (const Error& error) {
    return unreadable(error);
  }
}

Judgement judge_dump(const Criterion& criterion, const std::string& reference,
                     const std::string& path) {
  try {
    return judge_steps(criterion, open_whole(reference), open_whole(path));
  } catch (const Error& error) {
    return unreadable(error);
  }
}

replay::DumpsDifference compare_dumps(const std::string& a, const std::string& b,
                                      const replay::ElementFinder& find_element) {
  return replay::compare_dumps(open_ended(a), open_ended(b), {}, find_element);
}

}  // namespace rlreplay::bisect

#include "src/replay/measure/dump_numbers.h"

#include <algorithm>
#include <map>

#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/replay/measure/log_probs.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/event_units.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::measure {
namespace {

using replay::RecordedRun;

bool has_ranks(const RecordedRun& run) {
  return std::ranges::any_of(run.steps(), [&](const StepId& step) {
    return run.dump().find("train", step.group()).size() > 1 &&
           replay::event_units(run.dump(), "train", step.group()).size() > 1;
  });
}

/// The scalars of all steps on which all ranks agree, by name.
std::vector<Metric> scalars_of(const RecordedRun& run) {
  std::map<std::string, Metric> metrics;
  for (const StepId& step : run.steps()) {
    const format::NamedColumns scalars = run.scalars(step).agreed;
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

/// The events of a step; before those of a rollout's first step, the rollout's.
engine::StepEvents events_of(const RecordedRun& run, const StepId& step) {
  engine::StepEvents events = run.step_events(step);
  if (step.step == 0) events.prepend(run.rollout_events(step.rollout));
  return events;
}

std::string weights_digest(const RecordedRun& run, const StepId& step) {
  const auto events = events_of(run, step);
  const bool recorded = std::ranges::any_of(
      events.events, [](const auto& r) { return r.event.op == engine::Op::kWeight; });
  return recorded ? events.total(engine::Op::kWeight).hex() : "";
}

std::string contract_of(const RecordedRun& run) {
  const JsonDocument meta = JsonDocument::parse(run.dump().meta(), "meta");
  const auto contract = meta.root().find("contract");
  return contract ? contract->dump() : "";
}

/// Digests of what a run was given, where recorded: contract, first state, tokens of its rollout.
std::vector<NamedDigest> inputs_of(const RecordedRun& run) {
  const StepId& first = run.steps().front();
  std::string state;
  for (const format::UnitRecord* unit : run.dump().find("weights", first.group())) {
    state += unit->content.hex();
  }
  return {
      {kContractInput, contract_of(run)},
      {"the state before step " + first.name(), state},
      {"the tokens of rollout " + std::to_string(first.rollout), tokens_hash(run, first.rollout)}};
}

}  // namespace

void read_dump_numbers(const std::string& path, bool log_probs, Measurement& measurement) {
  const RecordedRun run(path);
  if (!run.dump().sealed() || !run.dump().complete()) {
    throw Error(ErrorCode::kIncomplete, "this dump was not recorded to its end", path);
  }
  if (run.steps().empty()) throw Error(ErrorCode::kIncomplete, "this dump holds no step", path);
  measurement.evidence = Evidence::kDump;
  measurement.dump = path;
  measurement.metrics = scalars_of(run);
  const bool ranks = has_ranks(run);  // their events are not put together
  for (const StepId& step : run.steps()) {
    measurement.steps.push_back(step.name());
    measurement.weights.push_back({step.name(), ranks ? "" : weights_digest(run, step)});
  }
  measurement.inputs = inputs_of(run);
  if (std::ranges::none_of(measurement.weights,
                           [](const NamedDigest& step) { return !step.digest.empty(); })) {
    measurement.content = replay::content_root(run.dump()).hex();
  }
  if (log_probs) measurement.log_probs = read_log_probs(run);
}

}  // namespace rlreplay::measure

#include "src/bisect/recorded_steps.h"

#include <map>

#include "src/base/error.h"

namespace rlreplay::bisect {

using replay::RecordedRun;
using replay::StepId;

RecordedRun open_ended(const std::string& path) {
  RecordedRun run(path);
  if (!run.dump().sealed() || !run.dump().complete()) {
    throw Error(ErrorCode::kIncomplete, "this dump was not recorded to its end", path);
  }
  return run;
}

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

engine::StepEvents events_of(const RecordedRun& run, const StepId& step) {
  engine::StepEvents events = run.step_events(step);
  if (step.step == 0) events.prepend(run.rollout_events(step.rollout));
  return events;
}

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

}  // namespace rlreplay::bisect

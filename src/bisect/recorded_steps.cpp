#include "src/bisect/recorded_steps.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "src/base/error.h"

namespace rlreplay::bisect {
namespace {

/// `3-0`; nothing for a group of another kind.
std::optional<StepId> parse_group(const std::string& group) {
  StepId step;
  const char* end = group.data() + group.size();
  const auto rollout = std::from_chars(group.data(), end, step.rollout_id);
  if (rollout.ec != std::errc() || rollout.ptr == end || *rollout.ptr != '-') return std::nullopt;
  const auto within = std::from_chars(rollout.ptr + 1, end, step.step_id);
  if (within.ec != std::errc() || within.ptr != end) return std::nullopt;
  return step;
}

std::vector<StepId> steps_of(const format::DumpReader& dump) {
  std::set<StepId> steps;
  for (const auto& unit : dump.units()) {
    if (format::kind_of(unit.path) != "train") continue;
    for (const auto& group : unit.groups) {
      if (const auto step = parse_group(group)) steps.insert(*step);
    }
  }
  return {steps.begin(), steps.end()};
}

engine::StepEvents read_group(const format::DumpReader& dump, std::string_view kind,
                              const std::string& group, const StepId& step) {
  const auto units = dump.find(kind, group);
  if (units.size() > 1) {
    throw Error(ErrorCode::kUnsupported, "events of several ranks are not compared by this version",
                std::string(kind) + "/" + group);
  }
  if (!units.empty()) {
    const format::UnitReader unit = dump.open_unit(*units[0]);
    if (replay::has_events(unit, group)) {
      return replay::read_events(dump, unit, group, step.rollout_id, step.step_id);
    }
  }
  engine::StepEvents none;
  none.rollout_id = step.rollout_id;
  none.step_id = step.step_id;
  return none;
}

}  // namespace

std::string StepId::group() const {
  return std::to_string(rollout_id) + "-" + std::to_string(step_id);
}

std::string StepId::name() const {
  return std::to_string(rollout_id) + "." + std::to_string(step_id);
}

RecordedSteps::RecordedSteps(const std::string& path)
    : dump_(format::DumpReader::open(path)), steps_(steps_of(dump_)) {
  if (!dump_.sealed() || !dump_.complete()) {
    throw Error(ErrorCode::kIncomplete, "this dump was not recorded to its end", path);
  }
  if (steps_.empty()) throw Error(ErrorCode::kIncomplete, "this dump holds no step", path);
}

std::vector<format::TrainData> RecordedSteps::train_data(const StepId& step) const {
  std::vector<format::TrainData> ranks;
  for (const format::UnitRecord* unit : dump_.find("train", step.group())) {
    ranks.push_back(format::read_train_data(dump_, dump_.open_unit(*unit), step.group()));
  }
  return ranks;
}

std::vector<Metric> RecordedSteps::scalars() const {
  std::map<std::string, Metric> metrics;
  for (const StepId& step : steps_) {
    const auto units = dump_.find("train", step.group());
    const auto data = format::read_train_data(dump_, dump_.open_unit(*units.at(0)), step.group());
    if (!data.scalars) continue;
    for (size_t i = 0; i < data.scalars->names.size(); ++i) {
      Metric& metric = metrics[data.scalars->names[i]];
      metric.name = data.scalars->names[i];
      metric.per_step = true;
      metric.values.push_back(data.scalars->values[i]);
      metric.step_names.push_back(step.name());
    }
  }
  std::vector<Metric> sorted;
  for (auto& [name, metric] : metrics) sorted.push_back(std::move(metric));
  return sorted;
}

engine::StepEvents RecordedSteps::events(const StepId& step) const {
  engine::StepEvents events = read_group(dump_, "train", step.group(), step);
  if (step.step_id == 0) {
    events.prepend(read_group(dump_, "rollout", std::to_string(step.rollout_id), step));
  }
  return events;
}

std::string RecordedSteps::tokens_hash(int64_t rollout_id) const {
  const std::string group = std::to_string(rollout_id);
  std::string hash;
  for (const format::UnitRecord* unit : dump_.find("rollout", group)) {
    const format::UnitReader reader = dump_.open_unit(*unit);
    const format::StoredDataset* tokens = reader.find(group + "/tokens");
    if (tokens != nullptr) hash += tokens->hash.hex();
  }
  return hash;
}

}  // namespace rlreplay::bisect

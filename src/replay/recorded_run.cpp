#include "src/replay/recorded_run.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "src/base/error.h"
#include "src/replay/event_store.h"
#include "src/replay/state_data.h"

namespace rlreplay::replay {
namespace {

std::optional<int64_t> parse_id(std::string_view text) {
  int64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || id < 0) {
    return std::nullopt;
  }
  return id;
}

std::optional<StepId> parse_step(std::string_view group) {
  const size_t dash = group.find('-');
  if (dash == group.npos) return std::nullopt;
  const auto rollout = parse_id(group.substr(0, dash)), step = parse_id(group.substr(dash + 1));
  if (!rollout || !step) return std::nullopt;
  return StepId{*rollout, *step};
}

}  // namespace

RecordedRun::RecordedRun(const std::string& path)
    : path_(path), dump_(format::DumpReader::open(path)) {
  std::set<int64_t> rollouts;
  std::set<StepId> steps, states;
  for (const format::UnitRecord& unit : dump_.units()) {
    for (const std::string& group : unit.groups) {
      if (unit.path.starts_with("rollout/")) {
        if (const auto id = parse_id(group)) rollouts.insert(*id);
      } else if (unit.path.starts_with("train/")) {
        if (const auto id = parse_step(group)) steps.insert(*id);
      } else if (unit.path.starts_with("weights/")) {
        if (const auto id = parse_step(group)) states.insert(*id);
      }
    }
  }
  rollouts_.assign(rollouts.begin(), rollouts.end());
  steps_.assign(steps.begin(), steps.end());
  states_.assign(states.begin(), states.end());
}

bool RecordedRun::has_state(const StepId& step) const {
  return std::ranges::binary_search(states_, step);
}

std::vector<engine::Sample> RecordedRun::samples(int64_t rollout) const {
  const auto data = format::find_rollout_data(dump_, rollout);
  if (!data) {
    throw Error(ErrorCode::kIncomplete, "rollout " + std::to_string(rollout) + " was not recorded",
                path_);
  }
  return read_samples(*data);
}

int64_t RecordedRun::longest_prompt() const {
  int64_t out = 0;
  if (rollouts_.empty()) return out;
  for (const engine::Sample& s : samples(rollouts_.front())) out = std::max(out, s.prompt_length);
  return out;
}

format::TrainData RecordedRun::train_data(const StepId& step) const {
  const auto units = dump_.find("train", step.group());
  if (units.empty()) {
    throw Error(ErrorCode::kIncomplete, "step " + step.name() + " was not recorded", path_);
  }
  const format::UnitReader unit = dump_.open_unit(*units.front());
  return format::read_train_data(dump_, unit, step.group());
}

engine::StepEvents RecordedRun::events(const char* kind, const std::string& group,
                                       const StepId& step) const {
  engine::StepEvents none;
  none.rollout_id = step.rollout;
  none.step_id = step.step;
  const auto units = dump_.find(kind, group);
  if (units.empty()) return none;
  const format::UnitReader unit = dump_.open_unit(*units.front());
  if (!has_events(unit, group)) return none;
  return read_events(dump_, unit, group, step.rollout, step.step);
}

engine::StepEvents RecordedRun::rollout_events(int64_t rollout) const {
  return events("rollout", std::to_string(rollout), {rollout, 0});
}

engine::StepEvents RecordedRun::step_events(const StepId& step) const {
  return events("train", step.group(), step);
}

void RecordedRun::load_state(const StepId& step, engine::Backend& backend) const {
  read_state(dump_, step.group(), backend);
}

void RecordedRun::load_weights(const StepId& step, const engine::ParameterTable& parameters,
                               std::span<float> weights) const {
  read_weights(dump_, step.group(), parameters, weights);
}

}  // namespace rlreplay::replay

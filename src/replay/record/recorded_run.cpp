#include "src/replay/record/recorded_run.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "format/group_io.h"
#include "format/group_name.h"
#include "format/record.h"
#include "format/unit.h"
#include "src/base/error.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/event_units.h"
#include "src/replay/record/parse_step.h"
#include "src/replay/record/partial_steps.h"
#include "src/replay/record/state_reader.h"
#include "src/replay/record/step_range.h"

namespace rlreplay::replay {
namespace {

using Holders = std::span<const format::IndexedGroup>;

/// Whether a step has numbers that a run gives: a name with negative ones is somebody else's.
bool is_numbered(const StepId& step) { return step.rollout >= 0 && step.step >= 0; }

/// The steps that at least `needed` ranks hold: where writers died, some ranks may have come
/// further than others.
std::vector<StepId> held_by(const std::map<StepId, int64_t>& ranks, int64_t needed) {
  std::vector<StepId> out;
  for (const auto& [step, there] : ranks) {
    if (there >= needed) out.push_back(step);
  }
  return out;
}

}  // namespace

RecordedRun::RecordedRun(const std::string& folder, std::string path)
    : path_(std::move(path)), dump_(format::DumpReader::open(folder)) {
  std::set<int64_t> rollouts;
  std::map<StepId, int64_t> steps, states;  // and how many ranks hold them
  const auto count = [](std::map<StepId, int64_t>& ranks, Holders holders) {
    const auto id = parse_step(holders[0].name);
    if (id && is_numbered(*id)) ranks[*id] = std::ssize(ranks_that_hold(holders));
  };
  dump_.units().index().for_each_name([&](Holders holders) {
    const std::string_view kind = holders[0].kind();
    if (kind == "train") count(steps, holders);
    if (kind == "weights") count(states, holders);
    if (kind != "rollout") return;
    const auto id = format::parse_rollout(holders[0].name);
    if (id && *id >= 0) rollouts.insert(*id);
  });
  rollouts_.assign(rollouts.begin(), rollouts.end());
  const int64_t needed = dump_.complete() ? 1 : format::ranks_of(dump_.meta());
  steps_ = held_by(steps, needed);
  states_ = held_by(states, needed);
}

void RecordedRun::keep_steps(const std::string& text) {
  if (text.empty()) return;
  const StepRange range = parse_steps(text, steps_);
  check_steps(range, steps_.size(), path_);
  const int64_t end = std::min<int64_t>(range.last, std::ssize(steps_) - 1);
  steps_ = {steps_.begin() + range.first, steps_.begin() + end + 1};
  const StepId first = steps_.front(), last = steps_.back();
  std::erase_if(states_, [&](const StepId& step) { return step < first || last < step; });
  std::erase_if(rollouts_, [&](int64_t id) { return id < first.rollout || id > last.rollout; });
  dump_.keep([part = RunPart{first, last}](std::string_view kind, const std::string& group) {
    return part.holds_group(kind, group);
  });
  is_part_ = true;
}

std::optional<RecordedConfig> RecordedRun::find_config() const {
  try {
    return config();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported) return std::nullopt;
    throw;
  }
}

bool RecordedRun::has_state(const StepId& step) const {
  return std::ranges::binary_search(states_, step);
}

engine::StepEvents RecordedRun::events(const char* kind, const std::string& group,
                                       const StepId& step) const {
  engine::StepEvents none;
  none.rollout_id = step.rollout;
  none.step_id = step.step;
  const auto unit = open_events(dump_, kind, group);
  return unit ? read_events(dump_, *unit, group, step.rollout, step.step) : none;
}

StepScalars RecordedRun::scalars(const StepId& step) const {
  std::vector<std::pair<int64_t, format::NamedColumns>> by_rank;
  for (const format::UnitRecord* record : dump_.find("train", step.group())) {
    const format::UnitReader unit = dump_.open_unit(*record);
    std::optional<format::NamedColumns> own;
    format::GroupReader(dump_, unit, step.group()).named("scalars", own, 0);
    if (own) by_rank.emplace_back(format::rank_of(record->path), std::move(*own));
  }
  return join_scalars(by_rank);
}

engine::StepEvents RecordedRun::rollout_events(int64_t rollout) const {
  return events("rollout", std::to_string(rollout), {rollout, 0});
}

engine::StepEvents RecordedRun::step_events(const StepId& step) const {
  return events("train", step.group(), step);
}

void RecordedRun::load_weights(const StepId& step, const ParameterTable& parameters,
                               std::span<float> weights) const {
  read_weights(dump_, step.group(), parameters, weights);
}

}  // namespace rlreplay::replay

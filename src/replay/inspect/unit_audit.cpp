#include "src/replay/inspect/unit_audit.h"

#include <algorithm>

#include "format/group_name.h"
#include "format/record.h"
#include "format/unit.h"
#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/words.h"
#include "src/replay/options/weights_policy.h"
#include "src/replay/record/missing_ranks.h"
#include "src/replay/record/parse_step.h"
#include "src/replay/record/run_gaps.h"
#include "src/replay/record/step_range.h"

namespace rlreplay::replay {
namespace {

using foreign::Problem;
using format::GroupName;
using format::UnitRecord;

std::vector<StepId> steps_of(const format::DumpReader& dump) {
  std::vector<StepId> out;
  for (const auto& [group, ranks] : ranks_by_group(dump)) {
    if (const auto step = parse_step(group)) out.push_back(*step);
  }
  return out;
}

/// The rollouts of a dump that have samples, or events, and those that have steps.
struct Rollouts {
  std::set<int64_t> generated, trained;
};

Rollouts rollouts_of(const format::DumpReader& dump) {
  Rollouts out;
  for (const UnitRecord& unit : dump.units()) {
    const std::string_view kind = format::kind_of(unit.path);
    if (kind != "rollout" && kind != "train") continue;
    for (const std::string& group : unit.groups) {
      const auto name = GroupName::parse(group);
      if (name) (kind == "train" ? out.trained : out.generated).insert(name->rollout);
    }
  }
  return out;
}

/// Holds the rollouts of a dump without options against its steps, for want of a plan.
void audit_run(const format::DumpReader& dump, std::vector<Problem>& problems) {
  const Rollouts of = rollouts_of(dump);
  std::ranges::move(check_rollouts(of.generated, of.trained), std::back_inserter(problems));
}

/// Rollouts and steps that the options of a captured run announce and the dump lacks.
void audit_plan(const format::DumpReader& dump, std::vector<Problem>& problems) {
  if (!dump.complete()) return;
  const auto config = recorded_config(dump);
  if (!config) return audit_run(dump, problems);
  const RunOptions& options = config->options;
  const int64_t per_rollout = steps_per_rollout(options);
  std::vector<std::string> missing;
  const auto demand = [&](const char* kind, const std::string& group) {
    if (dump.find(kind, group).empty()) missing.push_back(std::string(kind) + "/" + group);
  };
  const RunPart part = parse_part(config->part, steps_of(dump));
  const WeightsPolicy weights = parse_weights_policy(options.weights);
  const int64_t planned = std::min<int64_t>(planned_steps(options), format::kMaxUnits);
  for (int64_t i = 0; i < planned; ++i) {
    const StepId step{i / per_rollout, i % per_rollout};
    if (!part.holds(step)) continue;
    if (step.step == 0 || step == part.first) demand("rollout", std::to_string(step.rollout));
    if (options.rollout_only) continue;
    demand("train", step.group());
    // A part may begin behind the states that its run kept.
    if (config->part.empty() && weights.keeps(i)) demand("weights", step.group());
  }
  if (missing.empty()) return;
  std::string first;
  for (size_t i = 0; i < std::min<size_t>(missing.size(), 4); ++i) {
    first += (i == 0 ? "" : ", ") + missing[i];
  }
  problems.push_back({"plan-missing",
                      "of what the run's options announce, " + counted(missing.size(), "group") +
                          " are missing: " + first + (missing.size() > 4 ? ", ..." : ""),
                      "meta"});
}

}  // namespace

std::map<std::string, std::set<int64_t>> ranks_by_group(const format::DumpReader& dump) {
  std::map<std::string, std::set<int64_t>> out;
  for (const UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) != "train") continue;
    for (const std::string& group : unit.groups) out[group].insert(format::rank_of(unit.path));
  }
  return out;
}

std::optional<RecordedConfig> recorded_config(const format::DumpReader& dump) {
  const JsonDocument meta = JsonDocument::parse(dump.meta(), "meta");
  if (!meta.root().find("config") || !meta.root().find("model")) return std::nullopt;
  return read_dump_meta(dump.meta(), "meta");
}

std::vector<std::string> rollout_gap_notes(const format::DumpReader& dump) {
  const Rollouts of = rollouts_of(dump);
  std::vector<std::string> notes;
  for (const Problem& found : find_rollout_gaps(of.generated, of.trained)) {
    notes.push_back(found.where + ": " + found.message);
  }
  return notes;
}

std::vector<Problem> audit_records(const format::DumpReader& dump) {
  std::vector<Problem> problems;
  if (!dump.sealed()) return problems;  // its writer may be at work
  const int64_t ranks = format::ranks_of(dump.meta());
  std::map<int64_t, std::set<int64_t>> steps;
  for (const auto& [group, there] : ranks_by_group(dump)) {
    const auto step = GroupName::parse(group);
    if (step && step->step) steps[step->rollout].insert(*step->step);
    const std::string missing = missing_ranks(there, ranks);
    if (missing.empty()) continue;
    problems.push_back(
        {"rank-missing",
         "of " + std::to_string(ranks) + " ranks, these hold no part of the step: " + missing,
         "train/" + group});
  }
  std::ranges::move(find_step_gaps(steps), std::back_inserter(problems));
  try {
    static_cast<void>(imported_from(dump.meta(), "meta"));  // for what it refuses
    audit_plan(dump, problems);
  } catch (const Error& error) {
    problems.push_back({"options", error.what(), "meta"});
  }
  return problems;
}

}  // namespace rlreplay::replay

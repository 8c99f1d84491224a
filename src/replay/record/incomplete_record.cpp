#include "src/replay/record/incomplete_record.h"

#include <algorithm>
#include <vector>

#include "src/base/words.h"
#include "src/replay/record/import_findings.h"
#include "src/replay/record/partial_steps.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/record/step_range.h"

namespace rlreplay::replay {
namespace {

/// The first rollout that is missing between others, as text; empty without one.
std::string missing_rollout(const RecordedRun& run) {
  const std::vector<int64_t> ids = recorded_rollouts(run);
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] != ids[i - 1] + 1) return std::to_string(ids[i - 1] + 1);
  }
  return {};
}

/// Steps of a rollout are counted from 0, and each rollout before the last trained one has some. A
/// part of a run begins where it begins.
std::string missing_step(const RecordedRun& run, bool part) {
  const std::vector<int64_t> trained = trained_rollouts(run);
  for (const int64_t rollout : run.rollouts()) {
    if (trained.empty() || rollout > trained.back()) break;
    if (!std::ranges::binary_search(trained, rollout)) return StepId{rollout, 0}.name();
  }
  StepId next = part && !run.steps().empty() ? run.steps().front() : StepId{0, 0};
  for (const StepId& step : run.steps()) {
    if (step.rollout != next.rollout) next = {step.rollout, 0};
    if (step.step != next.step) return next.name();
    next.step = step.step + 1;
  }
  return {};
}

/// How many of the optimizer steps that a capture's run was to take lie in the part of its dump.
size_t planned(const RunOptions& options, const RunPart& part) {
  const int64_t steps = planned_steps(options), in_rollout = steps_per_rollout(options);
  const auto place = [&](const StepId& step) {
    return step.rollout > steps ? steps : step.rollout * in_rollout + step.step;
  };
  const int64_t end = std::min(steps - 1, place(part.last)) + 1;
  return static_cast<size_t>(std::max<int64_t>(0, end - place(part.first)));
}

/// What a captured run announced and the dump lacks; empty where it is all there.
std::string lacking(const RecordedRun& run, const RecordedConfig& config,
                    const std::string& there) {
  if (config.options.rollout_only) return {};
  const RunPart part = parse_part(config.part, run.steps());
  const auto in_part = [&](const StepId& step) { return part.holds(step); };
  const size_t steps = planned(config.options, part);
  if (std::ranges::count_if(run.steps(), in_part) >= static_cast<ptrdiff_t>(steps)) return {};
  const std::string of = config.part.empty() ? "its run" : "its part " + config.part + " of a run";
  return "the dump is incomplete: " + of + " had " + counted(steps, "step") + ", " + there;
}

}  // namespace

std::vector<std::string> unended_writers(const format::DumpReader& dump) {
  std::vector<std::string> names;
  for (const format::JournalEntry& journal : dump.journals()) {
    if (!journal.ended) names.push_back(journal.writer);
  }
  return names;
}

std::string unended_text(const format::DumpReader& dump) {
  constexpr size_t kNamed = 5;
  if (dump.journals().size() < 2) return {};
  std::vector<std::string> names = unended_writers(dump);
  if (names.empty()) return {};
  const size_t more = names.size() - std::min(names.size(), kNamed);
  names.resize(names.size() - more);
  return (names.size() == 1 ? "writer " : "writers ") + joined(names, ", ") +
         (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

std::string incomplete_text(const RecordedRun& run) {
  if (run.is_part()) return {};  // what was asked for is there
  const std::string left_out = left_out_text(run.dump());
  const std::string there = counted(run.steps().size(), "step") + " of it " +
                            (run.steps().size() == 1 ? "is" : "are") + " there" +
                            (left_out.empty() ? "" : "; " + left_out);
  if (!run.dump().sealed()) {
    const std::string open = unended_text(run.dump());
    return "the dump is unfinished" + (open.empty() ? "" : ", without an end of " + open) + ": " +
           there;
  }
  if (!run.dump().complete()) {
    const std::string died = unended_text(run.dump());
    return "the dump was recovered after " + (died.empty() ? "its writer" : died) +
           " died: " + there;
  }
  const bool imported = run.is_imported();
  const auto config = imported ? std::nullopt : run.find_config();
  if (const std::string step = missing_step(run, config && !config->part.empty()); !step.empty()) {
    return "the dump has a gap: step " + step + " is missing before later ones";
  }
  if (const std::string rollout = missing_rollout(run); !rollout.empty()) {
    return "the dump has a gap: rollout " + rollout + " is missing before later ones";
  }
  return config ? lacking(run, *config, there) : std::string();
}

std::string incomplete_line(const RecordedRun& run, const std::string& dump) {
  const std::string text = incomplete_text(run);
  std::string out = text.empty() ? text : "note: " + dump + ": " + text + "\n";
  const std::vector<foreign::Problem> found = recorded_findings(run.dump());
  if (found.empty()) return out;
  out += "note: " + dump + ": its files contradict themselves: " + found.front().message + " (" +
         found.front().where + ")";
  if (found.size() > 1) out += ", and " + counted(found.size() - 1, "finding") + " more";
  return out + ": rlreplay verify --deep lists them\n";
}

}  // namespace rlreplay::replay

#include "src/replay/record/record_state.h"

#include <algorithm>
#include <vector>

#include "src/base/counted.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

/// Of those before the last one, the first that is missing.
std::string missing_rollout(const RecordedRun& run) {
  const std::vector<int64_t> ids = recorded_rollouts(run);
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] != ids[i - 1] + 1) return std::to_string(ids[i - 1] + 1);
  }
  return {};
}

/// Steps of a rollout are counted from 0, and each rollout before the last trained one has some.
std::string missing_step(const RecordedRun& run) {
  const std::vector<int64_t> trained = trained_rollouts(run);
  for (const int64_t rollout : run.rollouts()) {
    if (trained.empty() || rollout > trained.back()) break;
    if (!std::ranges::binary_search(trained, rollout)) return StepId{rollout, 0}.name();
  }
  StepId next{0, 0};
  for (const StepId& step : run.steps()) {
    if (step.rollout != next.rollout) next = {step.rollout, 0};
    if (step.step != next.step) return next.name();
    next.step = step.step + 1;
  }
  return {};
}

/// The optimizer steps that the run of a capture was to take; nothing of an imported dump.
size_t planned(const RecordedRun& run) {
  if (imported_from(run.dump().meta(), run.path())) return 0;
  const RunOptions options = run.config().options;
  return options.rollout_only ? 0 : static_cast<size_t>(planned_steps(options));
}

}  // namespace

std::string incomplete_text(const RecordedRun& run) {
  const std::string there = counted(run.steps().size(), "step") + " of it " +
                            (run.steps().size() == 1 ? "is" : "are") + " there";
  if (!run.dump().sealed()) return "the dump is unfinished: " + there;
  if (!run.dump().complete()) return "the dump was recovered after its writer died: " + there;
  if (const std::string step = missing_step(run); !step.empty()) {
    return "the dump has a gap: step " + step + " is missing before later ones";
  }
  if (const std::string rollout = missing_rollout(run); !rollout.empty()) {
    return "the dump has a gap: rollout " + rollout + " is missing before later ones";
  }
  const size_t steps = planned(run);
  if (steps > run.steps().size()) {
    return "the dump is incomplete: its run had " + counted(steps, "step") + ", " + there;
  }
  return {};
}

std::string incomplete_line(const RecordedRun& run, const std::string& dump) {
  const std::string text = incomplete_text(run);
  return text.empty() ? text : "note: " + dump + ": " + text + "\n";
}

}  // namespace rlreplay::replay

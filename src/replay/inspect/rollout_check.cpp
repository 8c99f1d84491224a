#include "src/replay/inspect/rollout_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

/// What the trainer counted of a trajectory against the masks of its samples, trained on or not.
void check_trajectory_tokens(const RecordedRollout& rollout, RecordProblems& problems) {
  std::map<std::pair<bool, uint64_t>, int64_t> counted;
  std::set<uint64_t> seen;
  const auto count = [&](const std::vector<Sample>& samples) {
    for (const Sample& s : samples) {
      if (seen.insert(s.id).second)
        counted[trajectory_of(s)] += std::ranges::count(s.loss_mask, uint8_t{1});
    }
  };
  for (const RecordedStep& step : rollout.steps) count(step.samples);
  count(rollout.samples);
  for (const RecordedStep& step : rollout.steps) {
    for (const Sample& s : step.samples) {
      if (!s.trajectory_tokens || *s.trajectory_tokens == counted.at(trajectory_of(s))) {
        continue;
      }
      problems.add({"mask-sum-mismatch", "train/" + step.id.group(), "trajectory_tokens",
                    "sample " + std::to_string(s.id) + " of step " + step.id.name() + " says " +
                        std::to_string(*s.trajectory_tokens) +
                        " unmasked tokens of its trajectory, the masks have " +
                        std::to_string(counted.at(trajectory_of(s)))});
    }
  }
}

/// What was taken out of training must have no token in a step's loss.
void check_removed(const RecordedRollout& rollout, RecordProblems& problems) {
  if (!rollout.data || !rollout.data->removed) return;
  const auto& removed = *rollout.data->removed;
  for (const RecordedStep& step : rollout.steps) {
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const Sample& s = step.samples[i];
      const auto at = rollout.rows.find(s.id);
      const bool own = step.trained && step.fields[i].own_mask;
      if (!own || at == rollout.rows.end() || !removed.has(at->second)) continue;
      if (removed.values[at->second] == 0 || std::ranges::count(s.loss_mask, uint8_t{1}) == 0) {
        continue;
      }
      problems.add({"removed-mismatch", "train/" + step.id.group(), "loss_mask",
                    "sample " + std::to_string(s.id) + " was taken out of training by rollout " +
                        std::to_string(rollout.id) + ", and its mask in step " + step.id.name() +
                        " is not zeros"});
    }
  }
}

}  // namespace

RecordProblems check_recorded_rollout(const RecordedRun& run, int64_t rollout) {
  RecordProblems problems;
  const RecordedRollout read = read_recorded_rollout(run, rollout, problems);
  if (problems.empty()) check_trajectory_tokens(read, problems);
  check_removed(read, problems);
  if (!problems.empty() || !run.find_config()) return problems;
  try {
    check_replayable(run, read);
  } catch (const Error& error) {
    problems.add({"not-replayable", "rollout/" + std::to_string(rollout), "", error.what()});
  }
  return problems;
}

}  // namespace rlreplay::replay

#include "src/replay/inspect/lacking_columns.h"

#include <algorithm>
#include <set>

#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

/// Of samples with a response, those that lack a column of which others have values.
template <class Has>
void note_lacking(const std::string& column, const std::vector<Sample>& samples, Has has,
                  std::vector<std::string>& notes) {
  size_t lack = 0, count = 0;
  uint64_t first = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].loss_mask.empty()) continue;
    ++count;
    if (!has(i) && ++lack == 1) first = samples[i].id;
  }
  if (lack == 0 || lack == count) return;
  const size_t others = count - lack;
  notes.push_back(column + ": sample " + std::to_string(first) +
                  (lack > 1 ? " and " + std::to_string(lack - 1) + " more have" : " has") +
                  " none, " + counted(others, "other") + (others == 1 ? " has" : " have"));
}

/// Samples of which a step repeats the sampler's log-probabilities, or those of others: a check of
/// its own judges them.
std::set<uint64_t> judged_log_probs(const RecordedRollout& rollout) {
  std::set<uint64_t> out;
  for (const RecordedStep& step : rollout.steps) {
    if (std::ranges::none_of(step.fields, &RecordedFields::own_rollout_log_probs)) continue;
    for (const Sample& s : step.samples) out.insert(s.id);
  }
  return out;
}

void note_generated(const RecordedRollout& rollout, std::vector<std::string>& notes) {
  const std::string of = " of rollout " + std::to_string(rollout.id);
  const auto has_reward = [&](size_t row) { return rollout.fields[row].reward; };
  note_lacking("rewards" + of, rollout.samples, has_reward, notes);
  if (!rollout.data || !rollout.data->log_probs) return;
  const std::set<uint64_t> judged = judged_log_probs(rollout);
  const auto has_log_probs = [&](size_t row) {
    return rollout.data->log_probs->has(row) || judged.contains(rollout.samples[row].id);
  };
  note_lacking("log_probs" + of, rollout.samples, has_log_probs, notes);
}

void note_trained(const RecordedStep& step, std::vector<std::string>& notes) {
  for (const StepColumn& known : step_columns()) {
    const TokenColumn& values = step.*known.column;
    if (!values || known.column == &RecordedStep::rollout_log_probs) continue;
    const auto has = [&](size_t i) { return !(*values)[i].empty(); };
    note_lacking(std::string(known.name) + " of step " + step.id.name(), step.samples, has, notes);
  }
}

}  // namespace

std::vector<std::string> lacking_columns(const RecordedRollout& rollout, bool of_steps) {
  std::vector<std::string> notes;
  note_generated(rollout, notes);
  for (const RecordedStep& step : rollout.steps) {
    if (step.trained && of_steps) note_trained(step, notes);
  }
  return notes;
}

}  // namespace rlreplay::replay

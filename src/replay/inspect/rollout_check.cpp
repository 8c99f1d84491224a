#include "src/replay/inspect/rollout_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/words.h"
#include "src/replay/inspect/lacking_columns.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/record/run_gaps.h"

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
                        std::to_string(counted.at(trajectory_of(s))),
                    s.id});
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
                        " is not zeros",
                    s.id});
    }
  }
}

/// Whether a trainer that works in a type of 16 bits got the number: what the type holds, and the
/// nearest there is. `dropped`: bits of binary32 that the type has not.
bool is_rounded(float x, float of, int dropped) {
  const uint32_t rest = std::bit_cast<uint32_t>(x) & ((uint32_t{1} << dropped) - 1);
  const float half_ulp = std::fabs(of) * std::ldexp(1.0F, dropped - 24);
  return rest == 0 && std::fabs(x - of) <= std::max(half_ulp, 0x1p-25F);
}

/// The trainer's copy of a sample's log-probabilities, at the width that it has: the place of the
/// first that is another. Slices that a framework has added up have lost the sign of zeros.
std::optional<size_t> other_log_prob(const std::vector<double>& copy,
                                     const std::vector<double>& of) {
  const auto all = [&](auto same) { return std::ranges::equal(copy, of, same); };
  for (const int dropped : {16, 13}) {  // bfloat16, float16
    const auto rounded = [&](double copied, double said) {
      const auto x = static_cast<float>(copied), y = static_cast<float>(said);
      return same_value(x, y) || is_rounded(x, y, dropped);  // the first: infinities, NaNs
    };
    if (all(rounded)) return std::nullopt;
  }
  for (size_t t = 0; t < copy.size(); ++t) {
    const auto x = static_cast<float>(copy[t]), y = static_cast<float>(of[t]);
    if (!same_value(x, y) && x != y) return t;
  }
  return std::nullopt;
}

/// The problem that one side has a sample's log-probabilities, and the other has only others'.
RecordProblem one_sided_log_probs(const RecordedStep& step, const Sample& sample, bool trained,
                                  int64_t rollout) {
  const std::string numbers = " has " + counted(sample.loss_mask.size(), "number") + " of it";
  const std::string of_rollout = "log_probs of rollout " + std::to_string(rollout);
  const std::string of_step = "rollout_log_probs of step " + step.id.name();
  return {"rollout-mismatch", "train/" + step.id.group(), "rollout_log_probs",
          (trained ? of_rollout : of_step) + " lacks sample " + std::to_string(sample.id) + ", " +
              (trained ? of_step : of_rollout) + numbers,
          sample.id};
}

/// Holds the sampler's log-probabilities that a step repeats against the rollout's own.
void check_log_probs(const RecordedRollout& rollout, RecordProblems& problems) {
  if (!rollout.data || !rollout.data->log_probs) return;
  const format::RolloutData& data = *rollout.data;
  for (const RecordedStep& step : rollout.steps) {
    const bool repeats = std::ranges::any_of(step.fields, &RecordedFields::own_rollout_log_probs);
    for (size_t i = 0; repeats && i < step.samples.size(); ++i) {
      const Sample& s = step.samples[i];
      const auto row = rollout.rows.find(s.id);
      if (row == rollout.rows.end() || s.loss_mask.empty()) continue;
      const bool trained = step.fields[i].own_rollout_log_probs;
      const bool said = data.log_probs->has(row->second);
      if (trained != said) problems.add(one_sided_log_probs(step, s, trained, rollout.id));
      if (!trained || !said) continue;
      std::vector<double> generated;
      const uint64_t end = data.offsets[row->second + 1];
      for (uint64_t t = end - s.loss_mask.size(); t < end; ++t) {
        generated.push_back(data.log_probs->at(t));
      }
      const std::vector<double>& copy = (*step.rollout_log_probs)[i];
      const auto at = other_log_prob(copy, generated);
      if (!at) continue;
      problems.add({"rollout-mismatch", "train/" + step.id.group(), "rollout_log_probs",
                    "rollout_log_probs of sample " + std::to_string(s.id) + " of step " +
                        step.id.name() + " is " + shortest_of(copy[*at]) + " at token " +
                        std::to_string(static_cast<size_t>(s.prompt_length) + *at) + ", rollout " +
                        std::to_string(rollout.id) + " says " + shortest_of(generated[*at]),
                    s.id});
    }
  }
}

/// Whether a framework wrote the files that the run was imported from.
bool is_of_framework(const RecordedRun& run) {
  const auto vendor = imported_from(run.dump().meta(), run.path());
  return vendor && *vendor != "jsonl" && *vendor != "unknown";
}

/// Masks of steps that are not the rollout's, by step. `ones`: of a sample without one the trainer
/// counts each token, as it does where other samples have one.
std::vector<std::string> other_masks(const RecordedRollout& rollout, bool ones) {
  std::vector<std::string> out;
  const bool masked = std::ranges::any_of(rollout.fields, &RecordedFields::mask);
  for (const RecordedStep& step : rollout.steps) {
    size_t count = 0;
    std::string first;
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const Sample& s = step.samples[i];
      const auto row = rollout.rows.find(s.id);
      if (!step.fields[i].own_mask || row == rollout.rows.end()) continue;
      const bool said = rollout.fields[row->second].mask;
      if (!said && !ones && !masked) continue;
      const Sample& generated = rollout.samples[row->second];
      if (std::ranges::count(generated.loss_mask, uint8_t{1}) == 0) continue;  // check_removed
      const auto at = std::ranges::mismatch(s.loss_mask, generated.loss_mask);
      if (at.in1 == s.loss_mask.end() || at.in2 == generated.loss_mask.end()) continue;
      if (++count > 1) continue;
      const int64_t token = s.prompt_length + (at.in1 - s.loss_mask.begin());
      first = "sample " + std::to_string(s.id) + ", token " + std::to_string(token) + ": " +
              std::to_string(*at.in1) + ", the rollout says " +
              (said ? std::to_string(*at.in2) : "None");
    }
    if (count == 0) continue;
    out.push_back("masks of step " + step.id.name() + " that are not the rollout's: " + first +
                  (count > 1 ? ", and " + counted(count - 1, "more sample") : ""));
  }
  return out;
}

/// A sentence on samples that were not taken out of training and no step trains on; else empty.
std::string untrained_of(const RecordedRollout& rollout) {
  if (rollout.trained.empty() || !rollout.data) return "";
  const std::string found =
      untrained_samples(rollout.id, kept_samples(*rollout.data), rollout.trained);
  return found.empty() ? "" : "training on " + found;
}

/// A sentence on the rewards of a framework's rollout, where they are dicts: an option of the
/// trainer says which number it took. Empty for others.
std::string unjudged_rewards(const RecordedRun& run, const RecordedRollout& rollout) {
  const bool dicts = rollout.data && rollout.data->reward_components &&
                     std::ranges::none_of(rollout.fields, &RecordedFields::reward);
  if (!is_of_framework(run) || !dicts || rollout.steps.empty()) return "";
  return "raw_reward of the training data of rollout " + std::to_string(rollout.id) +
         ": the rewards are dicts, and rlreplay import --reward-key NAME, which takes one of their "
         "numbers, checks it (" +
         joined(rollout.data->reward_components->names, ", ") + ")";
}

}  // namespace

RecordFindings check_recorded_rollout(const RecordedRun& run, int64_t rollout) {
  RecordProblems problems;
  const RecordedRollout read = read_recorded_rollout(run, rollout, problems);
  if (problems.empty()) {
    check_trajectory_tokens(read, problems);
    check_log_probs(read, problems);
  }
  check_removed(read, problems);
  if (problems.empty() && run.find_config()) {
    try {
      check_replayable(run, read);
    } catch (const Error& error) {
      problems.add({"not-replayable", "rollout/" + std::to_string(rollout), "", error.what()});
    }
  }
  const bool of_framework = is_of_framework(run);
  std::vector<std::string> notes = other_masks(read, of_framework);
  const std::string untrained = run.find_config() ? "" : untrained_of(read);
  if (!untrained.empty()) notes.push_back(untrained);
  std::ranges::move(lacking_columns(run, read, of_framework, problems.empty()),
                    std::back_inserter(notes));
  const std::string unjudged = unjudged_rewards(run, read);
  if (!unjudged.empty()) notes.push_back(unjudged);
  return {std::move(problems).take(), std::move(notes)};
}

void name_replaced(const RecordedRun& run, int64_t rollout, RecordFindings& found) {
  const auto is_step = [&](const StepId& step) { return step.rollout == rollout; };
  if (std::ranges::none_of(run.steps(), is_step)) return;
  std::erase_if(found.not_checked,
                [](const std::string& note) { return note.starts_with("training on "); });
  found.not_checked.push_back(
      "training of rollout " + std::to_string(rollout) +
      " against its samples: indices of these are missing, negative or occur twice, so that none "
      "tells which sample a step means");
}

}  // namespace rlreplay::replay

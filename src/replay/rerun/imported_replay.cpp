#include "src/replay/rerun/imported_replay.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "src/base/error.h"
#include "src/base/with_place.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

/// One step that is taken: a recorded one, or a part of a rollout that none trained on.
struct Part {
  StepId id;
  size_t step = 0;  // of the rollout's
  size_t first = 0, count = 0;
};

using Targets = std::vector<SampleTargets>;

size_t samples_of_step(const RunOptions& options, size_t rollout) {
  const int64_t all = static_cast<int64_t>(rollout);
  const int64_t asked =
      options.global_batch_size.value_or(all / std::max<int64_t>(1, options.num_steps_per_rollout));
  return static_cast<size_t>(std::clamp<int64_t>(asked, 1, std::max<int64_t>(1, all)));
}

/// The ends of the steps that a rollout is cut into which none trained on: each has as many
/// trajectories as the options say, with all of their samples. What is left over is dropped.
std::vector<size_t> step_ends(const RecordedStep& step, const RunOptions& options) {
  using Key = std::pair<bool, uint64_t>;
  std::set<Key> all, before, here;
  for (const Sample& s : step.samples) all.insert(trajectory_of(s));
  const size_t size = samples_of_step(options, all.size());
  std::vector<size_t> out;
  for (size_t i = 0; i < step.samples.size(); ++i) {
    const Key key = trajectory_of(step.samples[i]);
    if (before.contains(key)) {
      throw Error(ErrorCode::kUnsupported,
                  "sample " + std::to_string(step.samples[i].id) + " of rollout " +
                      std::to_string(step.id.rollout) +
                      " does not stand beside the others of its trajectory, so that no cut into "
                      "steps keeps them together: import the train dump too");
    }
    if (!here.contains(key) && here.size() == size) {
      out.push_back(i);
      before.merge(here);
      here.clear();
    }
    here.insert(key);
  }
  if (here.size() == size) out.push_back(step.samples.size());
  return out;
}

/// The steps of a rollout: recorded ones, or cut by the options.
std::vector<Part> parts_of(const RecordedRollout& rollout, const RunOptions& options) {
  std::vector<Part> out;
  for (size_t s = 0; s < rollout.steps.size(); ++s) {
    const RecordedStep& step = rollout.steps[s];
    if (step.samples.empty()) continue;
    const auto ends = step.trained ? std::vector{step.samples.size()} : step_ends(step, options);
    size_t first = 0;
    for (size_t place = 0; place < ends.size(); ++place) {
      const StepId id{step.id.rollout, step.id.step + static_cast<int64_t>(place)};
      out.push_back({id, s, first, ends[place] - first});
      first = ends[place];
    }
  }
  return out;
}

/// What was recorded of the targets; empty where it was not.
Targets recorded_targets(const RecordedStep& step) {
  Targets out(step.samples.size());
  const auto take = [&](const TokenColumn& column, std::vector<float> SampleTargets::*field) {
    for (size_t i = 0; column && i < out.size(); ++i) out[i].*field = narrowed((*column)[i]);
  };
  take(step.advantages, &SampleTargets::advantages);
  take(step.old_log_probs, &SampleTargets::old_log_probs);
  take(step.ref_log_probs, &SampleTargets::ref_log_probs);
  take(step.values, &SampleTargets::values);
  take(step.teacher_log_probs, &SampleTargets::teacher_log_probs);
  take(step.reverse_kl, &SampleTargets::reverse_kl);
  return out;
}

template <class T>
std::span<const T> part(const std::vector<T>& all, const Part& p) {
  return std::span(all).subspan(p.first, p.count);
}

/// Whether a column has a value for every token of a sample's response.
bool has_tokens(const RecordedStep& step, const TokenColumn& column, size_t sample) {
  const auto tokens = static_cast<size_t>(step.samples[sample].response_length());
  return tokens == 0 || (column && (*column)[sample].size() == tokens);
}

RecordedCounts count_recorded(const RecordedStep& step, const Part& p) {
  RecordedCounts out;
  out.samples = static_cast<int64_t>(p.count);
  for (size_t i = p.first; i < p.first + p.count; ++i) {
    out.advantages += has_tokens(step, step.advantages, i) ? 1 : 0;
    out.old_log_probs += has_tokens(step, step.old_log_probs, i) ? 1 : 0;
    out.ref_log_probs += has_tokens(step, step.ref_log_probs, i) ? 1 : 0;
    out.masks += step.fields[i].mask ? 1 : 0;
    out.rewards += step.fields[i].reward ? 1 : 0;
    out.shaped_rewards += step.shaped && !has_tokens(step, step.advantages, i) ? 1 : 0;
  }
  return out;
}

RecordGives given_to(const RecordedStep& step, const Part& p) {
  RecordGives out{true, step.shaped.has_value(), step.trained, true};
  for (size_t i = p.first; i < p.first + p.count; ++i) {
    out.advantages = out.advantages && has_tokens(step, step.advantages, i);
    out.nuclei = out.nuclei && (step.samples[i].nuclei || step.samples[i].response_length() == 0);
  }
  return out;
}

void check_advantages(const RecordedRollout& rollout, const std::string& path) {
  for (const RecordedStep& step : rollout.steps) {
    for (size_t i = 0; i < step.samples.size(); ++i) {
      const RecordedFields& fields = step.fields[i];
      const bool computable = step.shaped || (fields.reward && fields.group);
      if (has_tokens(step, step.advantages, i) || computable) continue;
      throw Error(ErrorCode::kIncomplete,
                  "sample " + std::to_string(step.samples[i].id) + " has no advantages, and no " +
                      (fields.reward ? "group" : "reward") +
                      " from which they could be computed: import the rollout dump together with "
                      "the train dump",
                  path);
    }
  }
}

/// Steps of other frameworks. Of a rollout, targets are completed once, by the weights before its
/// first step that is taken; then its steps are taken in order.
class ImportedReplay {
 public:
  ImportedReplay(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                 const ImportedSteps& steps, Trainer& trainer, RunObserver& observer)
      : record_(record),
        options_(options),
        steps_(steps.ids),
        plan_(plan),
        nuclei_(steps.workload.nuclei || needs_nuclei(options)),
        trainer_(trainer),
        observer_(observer) {}

  void run() {
    const auto first = static_cast<size_t>(plan_.steps.first);
    const size_t last = std::min(steps_.size() - 1, static_cast<size_t>(plan_.steps.last));
    for (const int64_t rollout : recorded_rollouts(record_)) {
      if (steps_[first].rollout <= rollout && rollout <= steps_[last].rollout) run_rollout(rollout);
    }
  }

 private:
  bool takes(const StepId& id) const {
    return plan_.steps.holds(std::ranges::lower_bound(steps_, id) - steps_.begin());
  }

  void run_rollout(int64_t id) {
    const RecordedRollout rollout = read_recorded_rollout(record_, id);
    const std::vector<Part> parts = parts_of(rollout, options_);
    std::vector<Targets> targets;  // of each of the rollout's steps
    for (const Part& p : parts) {
      if (!takes(p.id)) continue;
      if (targets.empty()) targets = complete_targets(rollout, parts, p);
      step(rollout.steps[p.step], targets[p.step], p);
    }
  }

  /// What was recorded, completed by the weights before the rollout's first update.
  std::vector<Targets> complete_targets(const RecordedRollout& rollout,
                                        const std::vector<Part>& parts, const Part& begin) {
    check_advantages(rollout, record_.path());
    for (const RecordedStep& step : rollout.steps) {
      check_inputs(record_, rollout.id, step.samples);
      if (nuclei_) check_nuclei(step.samples, record_.path());
    }
    const bool old_given = options_.use_rollout_logprobs;
    if (begin.id != parts.front().id && !old_given) check_old(rollout, begin.id);
    std::vector<Sample> samples;
    Targets all;
    ShapedRewards shaped;
    for (const RecordedStep& step : rollout.steps) {
      for (size_t i = 0; i < step.samples.size(); ++i) {
        shaped.push_back(step.shaped ? std::optional((*step.shaped)[i]) : std::nullopt);
      }
      samples.insert(samples.end(), step.samples.begin(), step.samples.end());
      std::ranges::move(recorded_targets(step), std::back_inserter(all));
    }
    with_rollout(begin.id.rollout,
                 [&] { trainer_.complete_targets(samples, parts.size() > 1, all, shaped); });
    std::vector<Targets> out;
    auto from = all.begin();
    for (const RecordedStep& step : rollout.steps) {
      const auto end = from + static_cast<ptrdiff_t>(step.samples.size());
      out.emplace_back(std::move_iterator(from), std::move_iterator(end));
      from = end;
    }
    return out;
  }

  void check_old(const RecordedRollout& rollout, const StepId& begin) const {
    for (const RecordedStep& step : rollout.steps) {
      for (size_t i = 0; i < step.samples.size(); ++i) {
        if (has_tokens(step, step.old_log_probs, i)) continue;
        throw Error(
            ErrorCode::kIncomplete,
            "step " + begin.name() +
                " is not the first of its rollout, and the old log-probabilities of sample " +
                std::to_string(step.samples[i].id) +
                " were not recorded: begin with the rollout's first step",
            record_.path());
      }
    }
  }

  void step(const RecordedStep& recorded, const Targets& all, const Part& p) {
    const auto samples = part(recorded.samples, p);
    const auto targets = part(all, p);
    engine::EventSink* sink = observer_.step_sink(p.id.rollout, p.id.step, samples);
    StepOutcome outcome = with_step(p.id, [&] {
      return trainer_.step(samples, targets, sink,
                           recorded.trained ? recorded.trajectories() : std::nullopt);
    });
    outcome.rollout_id = p.id.rollout;
    outcome.step_id = p.id.step;
    outcome.recorded_counts = count_recorded(recorded, p);
    outcome.recorded_scalars = recorded_scalars(recorded);
    if (outcome.recorded_counts->rewards < outcome.recorded_counts->samples) outcome.reward.reset();
    outcome.replay_vs_record = compare(outcome, recorded, p);
    observer_.step(outcome, samples, targets);
  }

  /// The step's log-probabilities against the recorded ones of the same policy: those of the step,
  /// or the old ones before a rollout's first update.
  static std::optional<LogProbDifference> compare(const StepOutcome& outcome,
                                                  const RecordedStep& step, const Part& p) {
    std::vector<std::vector<float>> replayed, recorded;
    for (size_t i = p.first; i < p.first + p.count; ++i) {
      const bool old = !has_tokens(step, step.log_probs, i) && p.id.step == 0;
      const TokenColumn& column = old ? step.old_log_probs : step.log_probs;
      if (!has_tokens(step, column, i)) return std::nullopt;
      recorded.push_back(column ? narrowed((*column)[i]) : std::vector<float>());
      replayed.push_back(outcome.result.scores[i - p.first].log_probs);
    }
    return compare_log_probs(part(step.samples, p), replayed, recorded);
  }

  const RecordedRun& record_;
  const RunOptions& options_;
  const std::vector<StepId>& steps_;  // that could be taken, ascending
  const ReplayPlan& plan_;
  const bool nuclei_;  // whether top-p left less than all ids
  Trainer& trainer_;
  RunObserver& observer_;
};

}  // namespace

ImportedSteps imported_steps(const RecordedRun& record, const RunOptions& options) {
  ImportedSteps out;
  Workload& load = out.workload;
  for (const int64_t id : recorded_rollouts(record)) {
    const RecordedRollout rollout = read_recorded_rollout(record, id);
    for (const Part& p : parts_of(rollout, options)) {
      out.ids.push_back(p.id);
      out.gives.push_back(given_to(rollout.steps[p.step], p));
      load.step_samples = std::max(load.step_samples, static_cast<int64_t>(p.count));
      for (const Sample& s : part(rollout.steps[p.step].samples, p)) {
        load.longest_prompt = std::max(load.longest_prompt, s.prompt_length);
        load.longest_sample = std::max(load.longest_sample, static_cast<int64_t>(s.tokens.size()));
        load.nuclei = load.nuclei || s.nuclei;
      }
    }
  }
  if (out.ids.empty()) {
    throw Error(ErrorCode::kUsage, "the dump holds no samples to train on", record.path());
  }
  return out;
}

RecordGives gives_of(const ImportedSteps& steps, const ReplayPlan& plan) {
  RecordGives out{true, true, true, true};
  for (size_t i = 0; i < steps.gives.size(); ++i) {
    if (!plan.steps.holds(static_cast<int64_t>(i))) continue;
    const RecordGives& one = steps.gives[i];
    out = {out.advantages && one.advantages, out.shaped_rewards && one.shaped_rewards,
           out.steps && one.steps, out.nuclei && one.nuclei};
  }
  return out;
}

void replay_imported(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     const ImportedSteps& steps, Trainer& trainer, RunObserver& observer) {
  ImportedReplay(record, options, plan, steps, trainer, observer).run();
}

}  // namespace rlreplay::replay

#include "src/replay/rerun/replay.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/with_place.h"
#include "src/replay/options/objective_config.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/beside_values.h"
#include "src/replay/rerun/step_gap.h"
#include "src/replay/rerun/watch.h"

namespace rlreplay::replay {
namespace {

/// The samples of a step in the order of its record, as places in its rollout.
std::vector<size_t> step_members(const RecordedStep& step, const RecordedRollout& rollout,
                                 const std::string& path) {
  std::vector<size_t> out;
  for (const Sample& s : step.samples) {
    const auto at = rollout.rows.find(s.id);
    if (at == rollout.rows.end()) {
      throw Error(ErrorCode::kIncomplete,
                  "step " + step.id.name() + " trains on sample " + std::to_string(s.id) +
                      ", which its rollout does not have",
                  path);
    }
    out.push_back(at->second);
  }
  return out;
}

void keep_common(engine::StepEvents& recorded, const engine::StepEvents& replayed) {
  std::erase_if(recorded.events, [&](const engine::EventRecord& record) {
    return replayed.find(record.event) == nullptr;
  });
}

template <class T>
std::vector<T> pick(std::span<const T> from, std::span<const size_t> members) {
  std::vector<T> out;
  for (const size_t i : members) out.push_back(from[i]);
  return out;
}

void compare_with_record(const RecordedStep& step, std::span<const Sample> samples,
                         StepOutcome& outcome) {
  if (!is_whole(step.log_probs, samples)) return;
  std::vector<std::vector<float>> replayed, recorded;
  for (const Scores& s : outcome.result.scores) replayed.push_back(s.log_probs);
  for (const std::vector<double>& row : *step.log_probs) recorded.push_back(narrowed(row));
  outcome.replay_vs_record = compare_log_probs(samples, replayed, recorded);
}

/// The last step at or before position `first` that has its state in the dump.
size_t start_of(const RecordedRun& record, size_t first) {
  for (size_t i = first + 1; i-- > 0;) {
    if (record.has_state(record.steps()[i])) return i;
  }
  throw Error(ErrorCode::kIncomplete,
              "the dump holds no weights from which step " + record.steps()[first].name() +
                  " can be reached; capture with --weights first or all",
              record.path());
}

/// Recorded steps one after the other, from whatever state the backend has. A rollout is read when
/// its first step comes. Events of the step before are kept, recorded and replayed: a step that
/// follows it began from another state where those differ.
class Replay {
 public:
  Replay(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
         Trainer& trainer, ThreadPool& pool, Recorder* recorder)
      : record_(record),
        options_(options),
        plan_(plan),
        trainer_(trainer),
        recorder_(recorder),
        watch_(options, plan, trainer, pool),
        layouts_{parse_layout(record.config().options.layout), parse_layout(options.layout)} {}

  ReplayedStep run(const StepId& id, bool judged) {
    load_rollout(id);
    if (recorder_ != nullptr) recorder_->keep_state(id.rollout, id.step);
    const RecordedStep& recorded_step = step_of(id);
    const std::vector<size_t> members = step_members(recorded_step, *rollout_, record_.path());
    const auto samples = pick<Sample>(rollout_->samples, members);
    const auto targets = pick<SampleTargets>(targets_, members);
    ReplayedStep out;
    out.judged = judged;
    engine::EventSink* sink = watch_.begin(id.rollout, id.step, samples);
    out.outcome = with_step(id, [&] { return trainer_.step(samples, targets, sink); });
    out.outcome.rollout_id = id.rollout;
    out.outcome.step_id = id.step;
    out.outcome.shaped_rewards = pick<double>(shaped_, members);
    engine::StepEvents events = watch_.finish(id.rollout, id.step);
    engine::StepEvents recorded = record_.step_events(id);
    check_computable(recorded, record_.path());
    // Another kernel set shows less: only what both show is compared.
    if (trainer_.backend().name() != "portable") keep_common(recorded, events);
    out.events = static_cast<int64_t>(recorded.events.size());
    const bool follows = !plan_.each_step && recorded_before_.has_value();
    out.difference =
        follows ? compare_steps(recorded, events, {&*recorded_before_, &*replayed_before_, {}})
                : compare_steps(recorded, events);
    out.outcome.digests = state_digests(events);
    compare_with_record(recorded_step, samples, out.outcome);
    out.outcome.recorded_scalars = recorded_scalars(recorded_step);
    out.values = compare_values(recorded_step, out.outcome, samples, targets, taken_);
    add_prompt_values(record_, id, recorded_step.samples, out.values);
    add_statistics(recorded, events, layouts_, out.values);
    out.values.in_order();
    out.judged = judged || out.outcome.result.replicas;
    out.outcome.identical = out.identical();
    if (recorder_ != nullptr && !out.outcome.result.replicas)
      recorder_->step(out.outcome, events, samples, targets);
    recorded_before_ = std::move(recorded);
    replayed_before_ = std::move(events);
    return out;
  }

  /// The ids of the samples of a step that was run.
  std::vector<uint64_t> samples_of(const StepId& id) const {
    std::vector<uint64_t> out;
    for (const Sample& s : step_of(id).samples) out.push_back(s.id);
    std::ranges::sort(out);
    return out;
  }

  /// The step that `whole` took, from the state as it is now, on the samples that are kept of it.
  StepOutcome run_part(const StepId& id, const StepOutcome& whole,
                       const std::function<bool(uint64_t)>& kept) {
    const RecordedStep& step = step_of(id);
    std::vector<size_t> members = step_members(step, *rollout_, record_.path());
    const engine::HeldBatch held =
        trainer_.held_batch(pick<Sample>(rollout_->samples, members),
                            pick<SampleTargets>(targets_, members), whole.result.scale);
    std::erase_if(members, [&](size_t i) { return !kept(rollout_->samples[i].id); });
    const auto samples = pick<Sample>(rollout_->samples, members);
    engine::EventSink* sink = watch_.begin(id.rollout, id.step, samples);
    StepOutcome out = with_step(id, [&] {
      return trainer_.step(samples, pick<SampleTargets>(targets_, members), sink, {}, held);
    });
    out.rollout_id = id.rollout;
    out.step_id = id.step;
    out.digests = state_digests(watch_.finish(id.rollout, id.step));
    out.recorded_scalars = recorded_scalars(step);
    return out;
  }

  void check_planted() const { watch_.check_planted(); }

  /// The events of the last step that was run; nothing before the first.
  const std::optional<engine::StepEvents>& last_events() const { return replayed_before_; }

 private:
  /// Targets are computed before the rollout's first update, as they were in the record. A replay
  /// that begins after it, or whose record does not hold the run's first weights, takes what those
  /// gave from the record.
  void load_rollout(const StepId& begin) {
    if (rollout_ && rollout_->id == begin.rollout) return;
    if (recorder_ != nullptr) copy_rollout(begin.rollout);
    rollout_ = read_recorded_rollout(record_, begin.rollout);
    check_replayable(record_, *rollout_);
    taken_.clear();
    std::vector<SampleTargets> given(rollout_->samples.size());
    if (begin.step > 0 && !options_.use_rollout_logprobs) {
      take(
          {"old_log_probs", &RecordedStep::old_log_probs, &SampleTargets::old_log_probs,
           options_.kl_coef != 0 || options_.use_opd,
           "step " + begin.name() + " is not the first of its rollout", "its rollout's first step"},
          begin, given);
    }
    if (needs_reference(options_) && options_.ref_load.empty() && !record_.has_state({0, 0})) {
      take({"ref_log_probs", &RecordedStep::ref_log_probs, &SampleTargets::ref_log_probs,
            options_.kl_coef != 0,
            "the reference is the model at the run's start, which is not in the dump",
            "a rollout that has them, or give --ref-load"},
           begin, given);
    }
    targets_ = with_rollout(begin.rollout,
                            [&] { return trainer_.targets(rollout_->samples, std::move(given)); });
    shaped_ = trainer_.shaped_rewards(rollout_->samples);
  }

  /// A column that is taken as it was recorded.
  struct Taken {
    std::string_view name;
    TokenColumn RecordedStep::*column;
    std::vector<float> SampleTargets::*field;
    bool by_rollout;  // read for all samples, not only for those of the steps that are run
    std::string why, begin;
  };

  void take(const Taken& what, const StepId& begin, std::span<SampleTargets> to) {
    const auto refuse = [&](uint64_t sample) {
      throw Error(ErrorCode::kIncomplete,
                  what.why + ", and the record does not hold the " + std::string(what.name) +
                      " of sample " + std::to_string(sample) + ": begin with " + what.begin,
                  record_.path());
    };
    for (const RecordedStep& step : rollout_->steps) {
      const TokenColumn& column = step.*what.column;
      for (size_t i = 0; i < step.samples.size(); ++i) {
        const Sample& s = step.samples[i];
        const bool there = column && std::ssize((*column)[i]) == s.response_length();
        if (!there && s.response_length() > 0 && step.id >= begin) refuse(s.id);
        const auto row = rollout_->rows.find(s.id);
        if (there && row != rollout_->rows.end())
          to[row->second].*what.field = narrowed((*column)[i]);
      }
    }
    for (size_t i = 0; what.by_rollout && i < to.size(); ++i) {
      const Sample& s = rollout_->samples[i];
      if (s.response_length() > 0 && (to[i].*what.field).empty()) refuse(s.id);
    }
    taken_.push_back(what.name);
  }

  const RecordedStep& step_of(const StepId& id) const {
    return *std::ranges::find(rollout_->steps, id, &RecordedStep::id);
  }

  void copy_rollout(int64_t id) {
    for (const format::UnitRecord* unit : record_.dump().find("rollout", std::to_string(id))) {
      recorder_->copy(record_.dump(), *unit);
    }
  }

  const RecordedRun& record_;
  const RunOptions& options_;
  const ReplayPlan& plan_;
  Trainer& trainer_;
  Recorder* recorder_;
  Watch watch_;
  Layouts layouts_;
  std::optional<engine::StepEvents> recorded_before_, replayed_before_;
  std::optional<RecordedRollout> rollout_;
  std::vector<SampleTargets> targets_;
  std::vector<std::string_view> taken_;  // columns of them that are the record's
  std::vector<double> shaped_;           // rewards
};

/// Sees that the difference is to be planted in a step that is run.
void check_injection(const ReplayPlan& plan, std::span<const StepId> steps,
                     const std::string& path) {
  if (!plan.injection) return;
  const StepId at{plan.injection->at.rollout_id, plan.injection->at.step_id};
  if (std::ranges::find(steps, at) != steps.end()) return;
  throw Error(ErrorCode::kUsage,
              "--inject " + to_string(*plan.injection) + ": step " + at.name() +
                  " is not replayed; steps " + steps.front().name() + " to " + steps.back().name() +
                  " are",
              path);
}

}  // namespace

std::string part_of(const ReplayPlan& plan, const RecordedRun& record) {
  const std::vector<StepId>& steps = record.steps();
  check_steps(plan.steps, steps.size(), record.path());
  const int64_t end = std::min<int64_t>(std::ssize(steps) - 1, plan.steps.last) + 1;
  const bool whole = plan.steps.first == 0 && end == planned_steps(record.config().options);
  if (whole && !plan.stop_at_first) return "";
  const std::string first = steps[static_cast<size_t>(plan.steps.first)].name() + "..";
  return plan.stop_at_first ? first : first + steps[static_cast<size_t>(end) - 1].name();
}

bool replay_training(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     Trainer& trainer, ThreadPool& pool, Recorder* recorder,
                     const ReplaySink& report) {
  const std::vector<StepId>& steps = record.steps();
  if (steps.empty()) {
    throw Error(ErrorCode::kUsage,
                "the dump holds no training steps; its rollouts are replayed by "
                "`rlreplay rollout`",
                record.path());
  }
  check_steps(plan.steps, steps.size(), record.path());
  const auto first = static_cast<size_t>(plan.steps.first);
  const size_t end = std::min(steps.size(), static_cast<size_t>(plan.steps.last) + 1);
  check_injection(plan, std::span(steps).subspan(first, end - first), record.path());
  const size_t start = start_of(record, first);
  if (!plan.each_step) check_no_gap(record, start, end - 1);
  Replay replay(record, options, plan, trainer, pool, recorder);
  bool identical = true;
  for (size_t i = start; i < end; ++i) {
    if (i == start || plan.each_step) read_state(record, steps[i], trainer.backend());
    const ReplayedStep step = replay.run(steps[i], i >= first);
    report(step);
    if (!step.judged || step.identical()) continue;
    identical = false;
    // Ranks that do not hold the same state take no further step together.
    if (plan.stop_at_first || step.outcome.result.replicas) return identical;
  }
  replay.check_planted();
  return identical;
}

void check_state(const RecordedRun& record, const StepId& step) {
  if (record.has_state(step)) return;
  throw Error(ErrorCode::kIncomplete,
              "the dump has no state before step " + step.name() +
                  ", from which the step is taken again: capture it with --weights all",
              record.path());
}

StepWithout remove_sample(const RecordedRun& record, const RunOptions& options,
                          const Removal& removal, int64_t last, Trainer& trainer, ThreadPool& pool,
                          const ReplaySink& later) {
  const std::vector<StepId>& steps = record.steps();
  const StepId& id = removal.step;
  check_state(record, id);
  const auto at = static_cast<size_t>(std::ranges::find(steps, id) - steps.begin());
  if (std::cmp_less(at, last)) {
    check_no_gap(record, at, static_cast<size_t>(std::min<int64_t>(last, std::ssize(steps) - 1)));
  }
  const ReplayPlan plan;
  Replay replay(record, options, plan, trainer, pool, nullptr);
  const auto sums = [&] {
    const Buffer<int64_t>& of = trainer.backend().exact_gradients()->sums();
    return std::vector<int64_t>(of.data(), of.data() + of.size());
  };
  StepWithout out;
  read_state(record, id, trainer.backend());
  out.whole = replay.run(id, /*judged=*/true);
  out.part = sums();
  read_state(record, id, trainer.backend());
  out.without = replay.run_part(id, out.whole.outcome,
                                [&](uint64_t sample) { return sample != removal.sample; });
  // Exact sums: what the sample gave is the difference, by integers that wrap as theirs do.
  const std::vector<int64_t> rest = sums();
  for (size_t i = 0; i < rest.size(); ++i) {
    out.part[i] =
        static_cast<int64_t>(static_cast<uint64_t>(out.part[i]) - static_cast<uint64_t>(rest[i]));
  }
  // From the weights of the step without the sample, which was taken last for that.
  for (size_t i = at + 1; i < steps.size() && std::cmp_less_equal(i, last); ++i) {
    later(replay.run(steps[i], /*judged=*/false));
  }
  return out;
}

std::vector<std::pair<uint64_t, int64_t>> element_by_sample(const RecordedRun& record,
                                                            const RunOptions& options,
                                                            const StepId& step, int64_t element,
                                                            Trainer& trainer, ThreadPool& pool) {
  check_state(record, step);
  const ReplayPlan plan;
  Replay replay(record, options, plan, trainer, pool, nullptr);
  read_state(record, step, trainer.backend());
  const StepOutcome whole = replay.run(step, /*judged=*/false).outcome;
  std::vector<std::pair<uint64_t, int64_t>> out;
  for (const uint64_t sample : replay.samples_of(step)) {
    read_state(record, step, trainer.backend());
    replay.run_part(step, whole, [&](uint64_t id) { return id == sample; });
    const auto at = static_cast<size_t>(element);
    out.emplace_back(sample, trainer.backend().exact_gradients()->sums().data()[at]);
  }
  return out;
}

RecomputedStep recompute_step(const RecordedRun& record, const RunOptions& options,
                              const ReplayPlan& plan, const StepId& step, Trainer& trainer,
                              ThreadPool& pool) {
  const std::vector<StepId>& steps = record.steps();
  const auto last = static_cast<size_t>(std::ranges::find(steps, step) - steps.begin());
  const bool alone = plan.each_step && record.has_state(step);
  const size_t start = alone ? last : start_of(record, static_cast<size_t>(plan.steps.first));
  if (!plan.each_step) check_no_gap(record, start, last);
  Replay replay(record, options, plan, trainer, pool, nullptr);
  RecomputedStep out;
  for (size_t i = start; i <= last; ++i) {
    if (i == start || plan.each_step) read_state(record, steps[i], trainer.backend());
    if (i == last && !plan.each_step) out.before = replay.last_events();
    replay.run(steps[i], /*judged=*/false);
  }
  out.events = *replay.last_events();
  return out;
}

void train_through(const RecordedRun& record, const RunOptions& options, int64_t rollout,
                   Trainer& trainer, ThreadPool& pool) {
  check_trained(record, rollout);
  const ReplayPlan plan;
  Replay replay(record, options, plan, trainer, pool, nullptr);
  for (const StepId& step : record.steps()) {
    if (step.rollout == rollout) replay.run(step, /*judged=*/false);
  }
}

}  // namespace rlreplay::replay

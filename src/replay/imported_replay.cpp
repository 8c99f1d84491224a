#include "src/replay/imported_replay.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

using engine::Sample;
using engine::SampleTargets;

/// One step of a rollout, as part of its batches.
struct Part {
  StepId id;
  size_t batch = 0;
  size_t first = 0, count = 0;
};

size_t samples_of_step(const RunOptions& options, size_t rollout) {
  const int64_t all = static_cast<int64_t>(rollout);
  const int64_t asked =
      options.global_batch_size.value_or(all / std::max<int64_t>(1, options.num_steps_per_rollout));
  return static_cast<size_t>(std::clamp<int64_t>(asked, 1, std::max<int64_t>(1, all)));
}

/// The steps of a rollout: recorded ones, or cut by the options; what is left over is dropped.
std::vector<Part> parts_of(const std::vector<RecordedBatch>& batches, const RunOptions& options) {
  std::vector<Part> out;
  for (size_t b = 0; b < batches.size(); ++b) {
    const RecordedBatch& batch = batches[b];
    const size_t size = batch.trained ? batch.size() : samples_of_step(options, batch.size());
    if (size == 0) continue;
    for (size_t first = 0; first + size <= batch.size(); first += size) {
      const auto step = static_cast<int64_t>(batch.trained ? 0 : first / size);
      out.push_back({{batch.id.rollout, batch.id.step + step}, b, first, size});
    }
  }
  return out;
}

template <class T>
std::span<const T> part(const std::vector<T>& all, const Part& p) {
  return std::span(all).subspan(p.first, p.count);
}

bool has_tokens(const Sample& sample, const std::vector<float>& values) {
  return static_cast<int64_t>(values.size()) == sample.response_length();
}

RecordedInputs count_recorded(const RecordedBatch& batch, const Part& p) {
  RecordedInputs out;
  out.samples = static_cast<int64_t>(p.count);
  for (size_t i = p.first; i < p.first + p.count; ++i) {
    const Sample& s = batch.samples[i];
    const SampleTargets& t = batch.targets[i];
    out.advantages += has_tokens(s, t.advantages) ? 1 : 0;
    out.old_log_probs += has_tokens(s, t.old_log_probs) ? 1 : 0;
    out.ref_log_probs += has_tokens(s, t.ref_log_probs) ? 1 : 0;
    out.masks += batch.has_mask[i] ? 1 : 0;
    out.rewards += batch.has_reward[i] ? 1 : 0;
  }
  out.loss = batch.scalar("loss");
  out.grad_norm = batch.scalar("grad_norm");
  return out;
}

void check_advantages(const std::vector<RecordedBatch>& batches, const std::string& path) {
  for (const RecordedBatch& batch : batches) {
    for (size_t i = 0; i < batch.size(); ++i) {
      const bool given = has_tokens(batch.samples[i], batch.targets[i].advantages);
      if (given || (batch.has_reward[i] && batch.has_group[i])) continue;
      throw Error(ErrorCode::kIncomplete,
                  "sample " + std::to_string(batch.samples[i].id) + " has no advantages, and no " +
                      (batch.has_reward[i] ? "group" : "reward") +
                      " from which they could be computed: import the rollout dump together with "
                      "the train dump",
                  path);
    }
  }
}

class ImportedReplay {
 public:
  ImportedReplay(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                 Trainer& trainer, RunObserver& observer)
      : record_(record), options_(options), plan_(plan), trainer_(trainer), observer_(observer) {}

  void run() {
    for (const int64_t rollout : recorded_rollouts(record_)) {
      if (next_ > plan_.last) break;
      run_rollout(rollout);
    }
    if (taken_) return;
    throw Error(ErrorCode::kUsage,
                next_ == 0 ? "the dump holds no samples to train on"
                           : "the dump has " + std::to_string(next_) + " steps, counted from 0",
                record_.path());
  }

 private:
  void run_rollout(int64_t rollout) {
    std::vector<RecordedBatch> batches = recorded_batches(record_, rollout);
    const std::vector<Part> parts = parts_of(batches, options_);
    bool ready = false;
    for (const Part& p : parts) {
      const int64_t index = next_++;
      if (index < plan_.first || index > plan_.last) continue;
      if (!ready) complete(batches, parts, p);
      ready = true;
      step(batches[p.batch], p);
    }
  }

  /// What the record lacks, by the weights before the rollout's first update.
  void complete(std::vector<RecordedBatch>& batches, const std::vector<Part>& parts,
                const Part& begin) {
    check_advantages(batches, record_.path());
    std::vector<Sample> samples;
    std::vector<SampleTargets> targets;
    for (const RecordedBatch& batch : batches) {
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
      targets.insert(targets.end(), batch.targets.begin(), batch.targets.end());
    }
    if (begin.id != parts.front().id) check_old(samples, targets, begin.id);
    recorded_ = batches;
    trainer_.complete_targets(samples, parts.size() > 1, targets);
    auto from = targets.begin();
    for (RecordedBatch& batch : batches) {
      std::move(from, from + static_cast<ptrdiff_t>(batch.size()), batch.targets.begin());
      from += static_cast<ptrdiff_t>(batch.size());
    }
  }

  void check_old(const std::vector<Sample>& samples, const std::vector<SampleTargets>& targets,
                 const StepId& begin) const {
    for (size_t i = 0; i < samples.size(); ++i) {
      if (has_tokens(samples[i], targets[i].old_log_probs)) continue;
      throw Error(ErrorCode::kIncomplete,
                  "step " + begin.name() +
                      " is not the first of its rollout, and the old log-probabilities of sample " +
                      std::to_string(samples[i].id) +
                      " were not recorded: begin with the rollout's first step",
                  record_.path());
    }
  }

  void step(const RecordedBatch& batch, const Part& p) {
    const auto samples = part(batch.samples, p);
    const auto targets = part(batch.targets, p);
    StepOutcome outcome =
        trainer_.step(samples, targets, observer_.step_sink(p.id.rollout, p.id.step, samples));
    outcome.rollout_id = p.id.rollout;
    outcome.step_id = p.id.step;
    outcome.recorded = count_recorded(recorded_[p.batch], p);
    if (outcome.recorded->rewards < outcome.recorded->samples) outcome.reward.reset();
    outcome.replay_vs_record = compare(outcome, recorded_[p.batch], p);
    observer_.step(outcome, samples, targets);
    taken_ = true;
  }

  /// The step's log-probabilities against the recorded ones of the same policy: those of the step,
  /// or the old ones before a rollout's first update.
  static std::optional<LogProbDifference> compare(const StepOutcome& outcome,
                                                  const RecordedBatch& batch, const Part& p) {
    std::vector<std::vector<float>> replayed, recorded;
    for (size_t i = p.first; i < p.first + p.count; ++i) {
      const Sample& s = batch.samples[i];
      const std::vector<float>* own = &batch.log_probs[i];
      if (!has_tokens(s, *own) && p.id.step == 0) own = &batch.targets[i].old_log_probs;
      if (!has_tokens(s, *own)) return std::nullopt;
      recorded.push_back(*own);
      replayed.push_back(outcome.result.scores[i - p.first].log_probs);
    }
    return compare_log_probs(part(batch.samples, p), replayed, recorded);
  }

  const RecordedRun& record_;
  const RunOptions& options_;
  const ReplayPlan& plan_;
  Trainer& trainer_;
  RunObserver& observer_;
  std::vector<RecordedBatch> recorded_;  // of the rollout, before anything was computed
  int64_t next_ = 0;                     // index of the next step
  bool taken_ = false;
};

}  // namespace

Workload imported_workload(const RecordedRun& record, const RunOptions& options) {
  Workload out;
  for (const int64_t rollout : recorded_rollouts(record)) {
    const std::vector<RecordedBatch> batches = recorded_batches(record, rollout);
    for (const Part& p : parts_of(batches, options)) {
      out.step_samples = std::max(out.step_samples, static_cast<int64_t>(p.count));
      for (const Sample& s : part(batches[p.batch].samples, p)) {
        out.longest_prompt = std::max(out.longest_prompt, s.prompt_length);
        out.longest_sample = std::max(out.longest_sample, static_cast<int64_t>(s.tokens.size()));
      }
    }
  }
  return out;
}

void replay_imported(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     Trainer& trainer, RunObserver& observer) {
  ImportedReplay(record, options, plan, trainer, observer).run();
}

}  // namespace rlreplay::replay

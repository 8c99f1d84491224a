#include "src/replay/replay.h"

#include <algorithm>
#include <charconv>

#include "src/base/error.h"
#include "src/replay/watch.h"

namespace rlreplay::replay {
namespace {

/// The samples of a step in the order of its record, and which they are in the rollout.
std::vector<size_t> step_members(const format::TrainData& data,
                                 std::span<const engine::Sample> rollout) {
  std::vector<size_t> out;
  for (const uint64_t id : data.sample_id) {
    const auto at = std::ranges::find(rollout, id, &engine::Sample::id);
    if (at == rollout.end()) {
      throw Error(ErrorCode::kIncomplete, "the step trains on sample " + std::to_string(id) +
                                              ", which its rollout does not have");
    }
    out.push_back(static_cast<size_t>(at - rollout.begin()));
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

void compare_with_record(const format::TrainData& data, std::span<const engine::Sample> samples,
                         StepOutcome& outcome) {
  if (!data.log_probs) return;
  std::vector<std::vector<float>> replayed;
  for (const engine::Scores& s : outcome.result.scores) replayed.push_back(s.log_probs);
  outcome.replay_vs_record =
      compare_log_probs(samples, replayed, response_floats(data, *data.log_probs, samples));
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

/// What a dump says of its model; the run's tokenizer and prompts are not in it.
class RecordedModel : public ModelSource {
 public:
  explicit RecordedModel(const RecordedRun& record)
      : record_(record), config_(record.config().model) {}

  const ModelConfig& config() const override { return config_; }

  void load(const engine::Runtime&, const engine::ParameterTable& parameters,
            std::span<float> weights) const override {
    for (const StepId& step : record_.states()) {
      record_.load_weights(step, parameters, weights);
      return;
    }
    throw Error(ErrorCode::kIncomplete,
                "the dump holds no weights: capture with --weights first or all", record_.path());
  }

  Tokenizer tokenizer() const override { absent("tokenizer"); }
  ChatTemplate chat_template() const override { absent("chat template"); }
  std::unique_ptr<PromptSource> prompts(const RunOptions&, const Tokenizer&) const override {
    absent("prompts");
  }
  void save(const engine::ParameterTable&, std::span<const float>,
            const std::string&) const override {
    absent("tokenizer to save with the weights");
  }

 private:
  [[noreturn]] void absent(const std::string& what) const {
    throw Error(ErrorCode::kIncomplete, "a dump holds no " + what, record_.path());
  }

  const RecordedRun& record_;
  ModelConfig config_;
};

class Replay {
 public:
  Replay(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
         Trainer& trainer, ThreadPool& pool, Recorder* recorder)
      : record_(record),
        plan_(plan),
        trainer_(trainer),
        recorder_(recorder),
        watch_(options, plan, trainer, pool) {}

  ReplayedStep run(const StepId& id, bool judged) {
    const bool fresh = load_rollout(id.rollout);
    if (recorder_ != nullptr) recorder_->keep_state(id.rollout, id.step);
    const format::TrainData data = record_.train_data(id);
    const std::vector<size_t> members = step_members(data, samples_);
    const auto samples = pick<engine::Sample>(samples_, members);
    auto targets = pick<engine::SampleTargets>(targets_, members);
    if (fresh && id.step > 0) take_old_log_probs(data, samples, targets);
    ReplayedStep out;
    out.judged = judged;
    out.outcome = trainer_.step(samples, targets, watch_.begin(id.rollout, id.step, samples));
    out.outcome.rollout_id = id.rollout;
    out.outcome.step_id = id.step;
    engine::StepEvents events = watch_.finish(id.rollout, id.step);
    engine::StepEvents recorded = record_.step_events(id);
    // Another kernel set shows less: only what both show is compared.
    if (trainer_.backend().name() != "portable") keep_common(recorded, events);
    const bool follows = !plan_.each_step && recorded_before_.has_value();
    out.difference = follows
                         ? compare_steps(recorded, events, {&*recorded_before_, &*replayed_before_})
                         : compare_steps(recorded, events);
    out.outcome.digests = state_digests(events);
    compare_with_record(data, samples, out.outcome);
    out.outcome.identical = out.difference.identical();
    if (recorder_ != nullptr) recorder_->step(out.outcome, events, samples, targets);
    recorded_before_ = std::move(recorded);
    replayed_before_ = std::move(events);
    return out;
  }

 private:
  /// Targets are computed before the rollout's first update, as they were in the record.
  bool load_rollout(int64_t id) {
    if (loaded_ == id) return false;
    if (recorder_ != nullptr) copy_rollout(id);
    samples_ = record_.samples(id);
    targets_ = trainer_.targets(samples_);
    loaded_ = id;
    return true;
  }

  void copy_rollout(int64_t id) {
    for (const format::UnitRecord* unit : record_.dump().find("rollout", std::to_string(id))) {
      recorder_->copy(record_.dump(), *unit);
    }
  }

  /// A replay that begins inside a rollout has weights that are not its old policy's.
  void take_old_log_probs(const format::TrainData& data, std::span<const engine::Sample> samples,
                          std::span<engine::SampleTargets> targets) const {
    if (!data.old_log_probs) {
      throw Error(ErrorCode::kIncomplete,
                  "the record has no old log-probabilities: begin with the first step of a rollout",
                  record_.path());
    }
    auto old = response_floats(data, *data.old_log_probs, samples);
    for (size_t i = 0; i < samples.size(); ++i) targets[i].old_log_probs = std::move(old[i]);
  }

  const RecordedRun& record_;
  const ReplayPlan& plan_;
  Trainer& trainer_;
  Recorder* recorder_;
  Watch watch_;
  std::optional<engine::StepEvents> recorded_before_, replayed_before_;
  int64_t loaded_ = -1;
  std::vector<engine::Sample> samples_;
  std::vector<engine::SampleTargets> targets_;
};

int64_t parse_count(std::string_view text, const std::string& whole) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && value >= 0) return value;
  throw Error(ErrorCode::kUsage,
              "--steps takes A..B, counted from 0, B included, not \"" + whole + "\"");
}

}  // namespace

void parse_steps(const std::string& text, ReplayPlan& plan) {
  const size_t dots = text.find("..");
  if (dots == text.npos) {
    plan.first = plan.last = parse_count(text, text);
    return;
  }
  plan.first = parse_count(std::string_view(text).substr(0, dots), text);
  const std::string_view end = std::string_view(text).substr(dots + 2);
  plan.last = end.empty() ? INT64_MAX : parse_count(end, text);
  if (plan.last < plan.first) parse_count("", text);
}

bool replay_training(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     Trainer& trainer, ThreadPool& pool, Recorder* recorder,
                     const ReplaySink& report) {
  const std::vector<StepId>& steps = record.steps();
  if (steps.empty()) {
    throw Error(ErrorCode::kUsage,
                "the dump holds no training steps; its rollouts are replayed by "
                "`rlreplay rollout --from`",
                record.path());
  }
  if (plan.first >= static_cast<int64_t>(steps.size())) {
    throw Error(ErrorCode::kUsage,
                "the dump has " + std::to_string(steps.size()) + " steps, counted from 0",
                record.path());
  }
  const auto first = static_cast<size_t>(plan.first);
  const size_t end = std::min(steps.size(), static_cast<size_t>(plan.last) + 1);
  const size_t start = start_of(record, first);
  Replay replay(record, options, plan, trainer, pool, recorder);
  bool identical = true;
  for (size_t i = start; i < end; ++i) {
    if (i == start || plan.each_step) record.load_state(steps[i], trainer.backend());
    const ReplayedStep step = replay.run(steps[i], i >= first);
    report(step);
    if (!step.judged || step.difference.identical()) continue;
    identical = false;
    if (plan.stop_at_first) break;
  }
  return identical;
}

void train_through(const RecordedRun& record, const RunOptions& options, int64_t rollout,
                   Trainer& trainer, ThreadPool& pool) {
  const ReplayPlan plan;
  Replay replay(record, options, plan, trainer, pool, nullptr);
  for (const StepId& step : record.steps()) {
    if (step.rollout == rollout) replay.run(step, /*judged=*/false);
  }
}

std::unique_ptr<ModelSource> recorded_model(const RecordedRun& record) {
  return std::make_unique<RecordedModel>(record);
}

}  // namespace rlreplay::replay

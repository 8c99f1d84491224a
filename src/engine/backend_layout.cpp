#include <optional>

#include "src/base/error.h"
#include "src/engine/backend.h"
#include "src/engine/check_samples.h"
#include "src/engine/rank_team.h"
#include "src/engine/step_events.h"
#include "src/objective/check_batch.h"

namespace rlreplay::engine {
namespace {

/// Steps run on ranks; what they hold is put together after each, in one model
/// that generates, scores, and is what a dump records.
class LayoutBackend : public Backend {
 public:
  LayoutBackend(const Runtime& runtime, const BackendConfig& config)
      : runtime_(runtime), config_(config) {
    check_layout(config.model, config.layout);
    BackendConfig alone = config;
    alone.layout = {};
    whole_ = make_portable_backend(runtime, alone);
    gradients_.emplace(whole_->parameters());
    team_ = runtime.host == nullptr ? make_thread_team(runtime, config)
                                    : make_process_team(runtime, config);
  }

  std::string_view name() const override { return "portable"; }
  const ModelConfig& config() const override { return whole_->config(); }
  const ParameterTable& parameters() const override { return whole_->parameters(); }
  int64_t steps() const override { return whole_->steps(); }
  StateSpans<const float> state() override { return whole_->state(); }
  const Gradients* exact_gradients() const override { return &*gradients_; }

  std::vector<Sample> generate(std::span<const Request> requests, const RolloutConfig& config,
                               const std::function<void(int64_t)>& progress) override {
    return whole_->generate(requests, config, [&](int64_t finished) {
      team_->see_alive();
      if (progress) progress(finished);
    });
  }
  std::vector<Scores> score(std::span<const Sample> samples, float temperature,
                            int64_t micro_batch_samples) override {
    return whole_->score(samples, temperature, micro_batch_samples);
  }

  void write_state(int64_t steps, const StateWriter& write) override {
    whole_->write_state(steps, write);
    team_->give(whole_->parameters(), whole_->state(), steps);
  }

  StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                  const StepConfig& config) override {
    check_samples(whole_->config(), samples);
    check_batch(config.objective, samples, targets);
    StepResult out;
    try {
      out = team_->step(samples, targets, config);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kCorrupt && e.code() != ErrorCode::kUnsupported) throw;
      // The same numbers in one rank: there the first that is wrong is found and named.
      if (runtime_.sink != nullptr) runtime_.sink->restart();
      whole_->step(samples, targets, config);
      throw Error(ErrorCode::kInternal,
                  std::string("ranks refuse a step that one rank takes: ") + e.what(), e.where());
    }
    put_together(out.scale);
    return out;
  }

 private:
  void put_together(int scale) {
    gradients_->begin(scale, {});
    gradients_->finish();
    whole_->write_state(whole_->steps() + 1, [&](const StateSpans<float>& state) {
      team_->take(whole_->parameters(), state, gradients_->all_sums());
      show(state);
    });
  }

  /// The events of whole parameters.
  void show(const StateSpans<float>& state) {
    if (runtime_.sink == nullptr) return;
    emit_gradients(runtime_, whole_->parameters(), *gradients_);
    for (const Parameter& p : whole_->parameters().list) {
      const auto emit = [&](Op op, std::span<float> values) {
        runtime_.emit_whole({Phase::kOptimizer, p.layer, op, p.name},
                            kernels::Matrix<float>(values.data() + p.offset, p.rows, p.cols));
      };
      emit(Op::kExpAvg, state.first_moments);
      emit(Op::kExpAvgSq, state.second_moments);
      emit(Op::kWeight, state.weights);
    }
  }

  const Runtime& runtime_;
  const BackendConfig config_;
  std::unique_ptr<Backend> whole_;
  std::optional<Gradients> gradients_;  // of the whole
  std::unique_ptr<RankTeam> team_;
};

}  // namespace

std::unique_ptr<Backend> make_layout_backend(const Runtime& runtime, const BackendConfig& config) {
  return std::make_unique<LayoutBackend>(runtime, config);
}

}  // namespace rlreplay::engine

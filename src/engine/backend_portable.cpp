#include <optional>

#include "src/base/error.h"
#include "src/engine/backend.h"
#include "src/engine/growing_rotary.h"

namespace rlreplay::engine {
namespace {

/// The model of one rank: in training a state and the sums of its gradients, else weights alone.
class PortableBackend : public Backend {
 public:
  PortableBackend(const Runtime& runtime, const BackendConfig& config)
      : runtime_(runtime), rotary_(config.model, config.rope) {
    if (config.float64) {
      throw Error(ErrorCode::kUnsupported, "the portable backend computes in float32 alone");
    }
    if (config.training) {
      state_.emplace(config.model);
      gradients_.emplace(state_->model.parameters());
    } else {
      frozen_.emplace(config.model);
    }
  }

  std::string_view name() const override { return "portable"; }
  const ModelConfig& config() const override { return model().config(); }
  const ParameterTable& parameters() const override { return model().parameters(); }
  int64_t steps() const override { return state_ ? state_->step : 0; }
  const Gradients* exact_gradients() const override { return gradients_ ? &*gradients_ : nullptr; }

  std::vector<Sample> generate(std::span<const Request> requests, const RolloutConfig& config,
                               const std::function<void(int64_t)>& progress) override {
    return rollout(context(positions_of(this->config(), requests, config.max_response)), requests,
                   config, progress);
  }

  std::vector<Scores> score(std::span<const Sample> samples, float temperature,
                            int64_t micro_batch_size) override {
    return score_each(context(positions_of(config(), samples)), samples, temperature,
                      micro_batch_size);
  }

  StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                  const StepConfig& config) override {
    if (!state_) throw Error(ErrorCode::kUsage, "a model that only scores takes no steps");
    const RotaryView rotary =
        rotary_.view_for(positions_of(this->config(), samples), runtime_.pool);
    return run_step(runtime_, *state_, *gradients_, rotary, samples, targets, config);
  }

  StateSpans<const float> state() override {
    const StateSpans<float> spans = mutable_state();
    return {spans.weights, spans.first_moments, spans.second_moments};
  }

  void write_state(int64_t steps, const StateWriter& write) override {
    write(mutable_state());
    if (state_) state_->step = steps;
    model().pack(runtime_, state_ ? PackedFor::kTraining : PackedFor::kForward);
  }

 private:
  Model& model() { return state_ ? state_->model : *frozen_; }
  const Model& model() const { return state_ ? state_->model : *frozen_; }

  StateSpans<float> mutable_state() {
    if (!state_) return {frozen_->weights(), {}, {}};
    return {state_->model.weights(), state_->moments.first, state_->moments.second};
  }

  ModelContext context(int64_t positions) {
    return {runtime_, model(), rotary_.view_for(positions, runtime_.pool)};
  }

  const Runtime& runtime_;
  GrowingRotary rotary_;
  std::optional<TrainState> state_;  // in training
  std::optional<Gradients> gradients_;
  std::optional<Model> frozen_;  // else
};

}  // namespace

std::unique_ptr<Backend> make_portable_backend(const Runtime& runtime,
                                               const BackendConfig& config) {
  return std::make_unique<PortableBackend>(runtime, config);
}

}  // namespace rlreplay::engine

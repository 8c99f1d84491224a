#include "src/engine/backend.h"

#include <algorithm>
#include <optional>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "src/base/error.h"
#include "src/engine/backend_torch_library.h"
#include "src/engine/check_samples.h"
#include "src/engine/schedule.h"
#include "src/engine/torch/convert.h"
#include "src/engine/torch/flat_state.h"
#include "src/engine/torch/generation.h"
#include "src/engine/torch/training.h"
#include "src/objective/check_batch.h"

namespace rlreplay::aten {
namespace {

/// The network reads the tensors of `state_`, which steps and write_state change in place: it is
/// made once. It keeps references to members before it, whose order is needed.
class TorchBackend : public engine::Backend {
 public:
  TorchBackend(const engine::Runtime& runtime, const engine::BackendConfig& config)
      : runtime_(runtime),
        config_(config),
        precision_(config.float64 ? Precision::kFloat64 : Precision::kFloat32),
        parameters_(make_parameters(config.model)),
        state_(parameters_, precision_, config.training),
        network_(config_.model, parameters_, state_.weights(), config.rope, config.layout.tp) {
    at::set_num_threads(runtime.pool.threads());
  }

  std::string_view name() const override { return "torch"; }
  const ModelConfig& config() const override { return config_.model; }
  const ParameterTable& parameters() const override { return parameters_; }
  int64_t steps() const override { return steps_; }
  const engine::Gradients* exact_gradients() const override { return nullptr; }

  std::vector<Sample> generate(std::span<const engine::Request> requests,
                               const engine::RolloutConfig& config,
                               const std::function<void(int64_t)>& progress) override {
    return aten::generate(runtime_, config_.model, network_, scalar_type(precision_), requests,
                          config, progress);
  }

  std::vector<Scores> score(std::span<const Sample> samples, float temperature,
                            int64_t micro_batch_size) override {
    engine::check_samples(config_.model, samples);
    const c10::NoGradGuard constant;
    std::vector<Scores> out;
    for (const auto& part : engine::micro_batches(samples.size(), micro_batch_size)) {
      const auto some = samples.subspan(part.first, part.count);
      append_scores(some,
                    score_rows(network_, hidden_of(network_, some), some,
                               static_cast<double>(temperature), false),
                    out);
    }
    for (size_t i = 0; i < samples.size(); ++i) {
      engine::check_scores(samples[i], out[i].log_probs, out[i].entropy);
    }
    return out;
  }

  engine::StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                          const engine::StepConfig& config) override {
    if (!config_.training) {
      throw Error(ErrorCode::kUsage, "a model that only scores takes no steps");
    }
    engine::check_samples(config_.model, samples);
    return train_step({runtime_, parameters_, network_, state_, steps_}, samples, targets, config);
  }

  StateSpans<const float> state() override {
    const auto spans = state_.spans();
    return {spans.weights, spans.first_moments, spans.second_moments};
  }

  void write_state(int64_t steps, const StateWriter& write) override {
    write(state_.spans());
    state_.adopt();
    steps_ = steps;
  }

 private:
  const engine::Runtime& runtime_;
  engine::BackendConfig config_;
  Precision precision_;
  ParameterTable parameters_;
  FlatState state_;
  Network network_;
  int64_t steps_ = 0;
};

}  // namespace
}  // namespace rlreplay::aten

extern "C" {

int rlreplay_torch_interface() { return rlreplay::engine::kTorchInterface; }

const char* rlreplay_torch_version() { return RLREPLAY_TORCH_VERSION; }

rlreplay::engine::Backend* rlreplay_make_torch_backend(
    const rlreplay::engine::Runtime* runtime, const rlreplay::engine::BackendConfig* config) {
  return new rlreplay::aten::TorchBackend(*runtime, *config);
}
}

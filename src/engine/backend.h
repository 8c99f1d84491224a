#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rotary_table.h"
#include "src/engine/rollout.h"
#include "src/engine/step.h"
#include "src/engine/transformer.h"

/// A model in training. `portable` keeps the numeric contract, on a kernel set; `torch`, the same
/// model on stock libtorch operators, is there to be compared with and promises no bits.
namespace rlreplay::engine {

/// What a backend computes, fixed for its life.
struct BackendConfig {
  ModelConfig model;
  kernels::Rope rope = kernels::Rope::kHf;
  bool training = true;  // else only generate and score: no moments, no gradients
  bool float64 = false;  // torch alone: computes in float64, for tests
  Layout layout = {};    // portable alone
};

/// A model with its weights, which is trained or only read.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "portable" or "torch".
  virtual std::string_view name() const = 0;
  virtual const ModelConfig& config() const = 0;
  virtual const ParameterTable& parameters() const = 0;

  /// Responses to the requests by the weights as they are; see engine::rollout.
  [[nodiscard]] virtual std::vector<Sample> generate(
      std::span<const Request> requests, const RolloutConfig& config,
      const std::function<void(int64_t finished)>& progress) = 0;

  /// Log-probabilities and entropies of every sample's response tokens, `micro_batch_size`
  /// samples at a time (0: all).
  [[nodiscard]] virtual std::vector<Scores> score(std::span<const Sample> samples,
                                                  float temperature, int64_t micro_batch_size) = 0;

  /// One optimizer step; see engine::run_step. Errors: kUsage without training.
  [[nodiscard]] virtual StepResult step(std::span<const Sample> samples,
                                        std::span<const SampleTargets> targets,
                                        const StepConfig& config) = 0;

  /// Optimizer steps taken.
  virtual int64_t steps() const = 0;

  /// The state to read, valid until the next call that is not const.
  virtual StateSpans<const float> state() = 0;

  /// Lets `write` change the state (it holds the present values) and sets the steps taken.
  using StateWriter = std::function<void(const StateSpans<float>& state)>;
  virtual void write_state(int64_t steps, const StateWriter& write) = 0;

  /// The exact gradient sums of the last step; null where the backend has none.
  virtual const Gradients* exact_gradients() const = 0;
};

/// The engine's own functions on the kernels of `runtime`, which must outlive the backend: its sink
/// is looked at in every call, and may be another one each time.
[[nodiscard]] std::unique_ptr<Backend> make_portable_backend(const Runtime& runtime,
                                                             const BackendConfig& config);

/// A portable backend whose work is done by the ranks of `config.layout`: threads of this process
/// that share those of `runtime`, or processes where that has a host. One model besides holds what
/// they have put together.
/// Errors: kUnsupported where the model does not go into the layout.
[[nodiscard]] std::unique_ptr<Backend> make_layout_backend(const Runtime& runtime,
                                                           const BackendConfig& config);

/// `name`: "portable" or "torch"; the latter loads librlreplay_torch. All weights are zero;
/// `runtime` as above.
/// Errors: kUsage for another name; kEnvironment where the library is not there or does not load.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::string_view name, const Runtime& runtime,
                                                    const BackendConfig& config);

}  // namespace rlreplay::engine

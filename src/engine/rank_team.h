#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "src/engine/backend.h"

namespace rlreplay::engine {

/// The ranks of a layout at work, wherever they run. `whole`: the parameters of the model that is
/// not cut.
class RankTeam {
 public:
  virtual ~RankTeam() = default;

  /// Every rank's part of a whole state.
  virtual void give(const ParameterTable& whole, const StateSpans<const float>& from,
                    int64_t steps) = 0;
  /// One step, as run_step has it, of all samples.
  [[nodiscard]] virtual StepResult step(std::span<const Sample> samples,
                                        std::span<const SampleTargets> targets,
                                        const StepConfig& config) = 0;
  /// A rollout of all requests, and scores of all samples, as Backend has them. Ranks of dp and of
  /// cp share those, the others the model. Errors do not name the first wrong number, as those of
  /// one rank do.
  [[nodiscard]] virtual std::vector<Sample> generate(
      std::span<const Request> requests, const RolloutConfig& config,
      const std::function<void(int64_t)>& progress) = 0;
  [[nodiscard]] virtual std::vector<Scores> score(std::span<const Sample> samples,
                                                  float temperature, int64_t micro_batch_size) = 0;
  /// What the ranks hold after a step, put together.
  virtual void take(const ParameterTable& whole, const StateSpans<float>& to,
                    std::span<int64_t> sums) = 0;
};

/// Threads of this process, which share those of `runtime`. `runtime` outlives them; its sink is
/// asked for with every step.
[[nodiscard]] std::unique_ptr<RankTeam> make_thread_team(const Runtime& runtime,
                                                         const BackendConfig& config);

/// Processes, of which this one is rank 0: as `runtime.host` starts them.
[[nodiscard]] std::unique_ptr<RankTeam> make_process_team(const Runtime& runtime,
                                                          const BackendConfig& config);

/// Counts the samples that ranks finish each of their own, for one who is told.
class SharedProgress {
 public:
  explicit SharedProgress(std::function<void(int64_t)> tell) : tell_(std::move(tell)) {}

  /// What one rank calls.
  std::function<void(int64_t)> of_rank() {
    return [this, before = int64_t{0}](int64_t finished) mutable {
      const std::lock_guard lock(mutex_);
      all_ += finished - before;
      before = finished;
      if (tell_) tell_(all_);
    };
  }

 private:
  const std::function<void(int64_t)> tell_;
  std::mutex mutex_;
  int64_t all_ = 0;
};

}  // namespace rlreplay::engine

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/engine/rollout.h"
#include "src/engine/rotary.h"
#include "src/engine/step.h"

namespace rlreplay::engine {

/// A rank's numbers in the order of its own storage; moments and sums as far as it holds them.
template <class F, class I>
struct RankNumbers {
  std::span<F> weights, first_moments, second_moments;
  std::span<I> sums;
};

/// Where a rank's numbers stand in the whole.
class RankPart {
 public:
  RankPart(const ModelConfig& config, const Layout& layout, const RankPlace& place);

  int64_t elements() const { return shard_.table.elements; }
  int64_t moments() const { return held_.size(); }

  /// Copies from the whole all that the rank holds but sums.
  void give(const ParameterTable& whole, const StateSpans<const float>& from,
            const RankNumbers<float, int64_t>& to) const;
  /// Copies into the whole what the rank answers for. Ranks of dp and cp hold the same, but for
  /// what zero deals over dp.
  void take(const ParameterTable& whole, const RankNumbers<const float, const int64_t>& from,
            const StateSpans<float>& to, std::span<int64_t> sums) const;

 private:
  ShardTable shard_;
  kernels::Range held_;  // moments and sums
};

/// Whether what a rank holds is what another one gives for the whole.
[[nodiscard]] bool is_copy(const Layout& layout, const RankPlace& place);

/// Whether a rank's result of a step counts: one of those that see the same samples.
[[nodiscard]] bool tells_result(const Layout& layout, const RankPlace& place);

/// Puts what such a rank says of its samples into the result of all, of which it took those from
/// `first` on.
void put_result(StepResult& all, const RankPlace& place, size_t first, StepResult own);

/// Which of `items` requests or samples that are only read a rank takes: those of dp and of cp hold
/// the same weights.
[[nodiscard]] kernels::Range dealt_to_read(size_t items, const Layout& layout,
                                           const RankPlace& place);

/// Whether a rank tells what came of those that it took: one of those that took the same.
[[nodiscard]] bool tells_read(const Layout& layout, const RankPlace& place);

/// The layout of ranks that only read the model: their residual stream is not cut (sp).
[[nodiscard]] Layout reading(const Layout& layout);

/// One rank of a layout, and what it keeps from step to step.
class LayoutRank {
 public:
  LayoutRank(const ModelConfig& config, const Layout& layout, const RankPlace& place, int threads);

  /// The rank's numbers, to be changed between steps; `loaded` is called afterwards.
  RankNumbers<float, int64_t> numbers();
  void loaded(const kernels::KernelSet& kernels, int64_t steps);

  /// Takes the rank's part in a step, with its own samples.
  [[nodiscard]] StepResult step(const kernels::KernelSet& kernels, const Ranks& ranks,
                                EventSink* sink, const RotaryView& rotary,
                                std::span<const Sample> samples,
                                std::span<const SampleTargets> targets, const StepConfig& config);

  /// Takes the rank's part in a rollout or in scoring, with its own requests or samples; see
  /// engine::rollout and Backend::score.
  [[nodiscard]] std::vector<Sample> generate(const kernels::KernelSet& kernels, const Ranks& ranks,
                                             EventSink* sink, const RotaryView& rotary,
                                             std::span<const Request> requests,
                                             const RolloutConfig& config,
                                             const std::function<void(int64_t)>& progress);
  [[nodiscard]] std::vector<Scores> score(const kernels::KernelSet& kernels, const Ranks& ranks,
                                          const RotaryView& rotary, std::span<const Sample> samples,
                                          float temperature, int64_t micro_batch_size);

  const ModelConfig& config() const { return state_.model.config(); }
  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
  TrainState state_;
  Gradients gradients_;
};

}  // namespace rlreplay::engine

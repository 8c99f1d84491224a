#include "src/engine/layout_rank.h"

#include <algorithm>
#include <utility>

namespace rlreplay::engine {

RankPart::RankPart(const ModelConfig& config, const Layout& layout, const RankPlace& place)
    : shard_(shard_parameters(config, make_shard(config, layout, place), place)),
      held_(layout.zero ? zero_range(shard_.table, place.dp, layout.dp)
                        : kernels::Range{0, shard_.table.elements}) {}

void RankPart::give(const ParameterTable& whole, const StateSpans<const float>& from,
                    const RankNumbers<float, int64_t>& to) const {
  const auto copy = [&](std::span<const float> all, std::span<float> own, kernels::Range held) {
    for_shard_runs(shard_, whole, held, false, [&](int64_t local, int64_t of_whole, int64_t n) {
      std::copy_n(all.data() + of_whole, n, own.data() + local - held.begin);
    });
  };
  copy(from.weights, to.weights, {0, elements()});
  copy(from.first_moments, to.first_moments, held_);
  copy(from.second_moments, to.second_moments, held_);
}

void RankPart::take(const ParameterTable& whole,
                    const RankNumbers<const float, const int64_t>& from,
                    const StateSpans<float>& to, std::span<int64_t> sums) const {
  const auto copy = [&](const auto& own, const auto& all, kernels::Range held) {
    for_shard_runs(shard_, whole, held, true, [&](int64_t local, int64_t of_whole, int64_t n) {
      std::copy_n(own.data() + local - held.begin, n, all.data() + of_whole);
    });
  };
  copy(from.weights, to.weights, {0, elements()});
  copy(from.sums, sums, held_);
  copy(from.first_moments, to.first_moments, held_);
  copy(from.second_moments, to.second_moments, held_);
}

// Context-parallel ranks hold the same weights and moments. So do data-parallel ones, unless each
// holds its own part of the moments.
bool is_copy(const Layout& layout, const RankPlace& place) {
  return place.cp > 0 || (place.dp > 0 && !layout.zero);
}

// The last stage has the losses, on all of its tensor- and context-parallel ranks.
bool tells_result(const Layout& layout, const RankPlace& place) {
  return place.pp == layout.pp - 1 && place.tp == 0 && place.cp == 0;
}

void put_result(StepResult& all, const RankPlace& place, size_t first, StepResult own) {
  std::ranges::move(own.scores, all.scores.begin() + static_cast<int64_t>(first));
  std::ranges::move(own.terms, all.terms.begin() + static_cast<int64_t>(first));
  if (place.dp > 0) return;
  all.losses = own.losses;
  all.grad_norm = own.grad_norm;
  all.clip_scale = own.clip_scale;
  all.scale = own.scale;
  all.replicas = std::move(own.replicas);
}

kernels::Range dealt_to_read(size_t items, const Layout& layout, const RankPlace& place) {
  return dealt_samples(static_cast<int64_t>(items), place.dp * layout.cp + place.cp,
                       layout.dp * layout.cp);
}

bool tells_read(const Layout& layout, const RankPlace& place) {
  return place.pp == layout.pp - 1 && place.tp == 0;
}

Layout reading(const Layout& layout) {
  Layout out = layout;
  out.sp = false;
  return out;
}

LayoutRank::LayoutRank(const ModelConfig& config, const Layout& layout, const RankPlace& place,
                       int threads)
    : pool_(threads), state_(config, layout, place), gradients_(state_.model.parameters()) {}

RankNumbers<float, int64_t> LayoutRank::numbers() {
  const kernels::Range held = state_.moments.held;
  return {state_.model.weights(), state_.moments.first, state_.moments.second,
          gradients_.all_sums().subspan(static_cast<size_t>(held.begin),
                                        static_cast<size_t>(held.size()))};
}

void LayoutRank::loaded(const kernels::KernelSet& kernels, int64_t steps) {
  state_.step = steps;
  state_.model.pack({kernels, pool_}, PackedFor::kTraining);
}

StepResult LayoutRank::step(const kernels::KernelSet& kernels, const Ranks& ranks, EventSink* sink,
                            const RotaryView& rotary, std::span<const Sample> samples,
                            std::span<const SampleTargets> targets, const StepConfig& config) {
  return run_step({kernels, pool_, sink, &ranks}, state_, gradients_, rotary, samples, targets,
                  config);
}

std::vector<Sample> LayoutRank::generate(const kernels::KernelSet& kernels, const Ranks& ranks,
                                         EventSink* sink, const RotaryView& rotary,
                                         std::span<const Request> requests,
                                         const RolloutConfig& config,
                                         const std::function<void(int64_t)>& progress) {
  Ranks uncut = ranks;
  uncut.layout = reading(ranks.layout);
  const Runtime runtime{kernels, pool_, sink, &uncut};
  return rollout({runtime, state_.model, rotary}, requests, config, progress);
}

std::vector<Scores> LayoutRank::score(const kernels::KernelSet& kernels, const Ranks& ranks,
                                      const RotaryView& rotary, std::span<const Sample> samples,
                                      float temperature, int64_t micro_batch_size) {
  Ranks uncut = ranks;
  uncut.layout = reading(ranks.layout);
  const Runtime runtime{kernels, pool_, nullptr, &uncut};
  return score_each({runtime, state_.model, rotary}, samples, temperature, micro_batch_size);
}

}  // namespace rlreplay::engine

#include <algorithm>
#include <optional>

#include "src/engine/growing_rotary.h"
#include "src/engine/layout_rank.h"
#include "src/engine/rank_events.h"
#include "src/engine/rank_team.h"
#include "src/engine/thread_ranks.h"

namespace rlreplay::engine {
namespace {

/// A thread for each rank while a call lasts; what a rank keeps from call to call is its entry of
/// `ranks_`, which no other rank touches. The table of rotations grows before the threads begin, so
/// they only read it.
class ThreadTeam : public RankTeam {
 public:
  ThreadTeam(const Runtime& runtime, const BackendConfig& config)
      : runtime_(runtime), config_(config), rotary_(config.model, config.rope) {
    const Layout& layout = config.layout;
    const int threads = std::max(1, runtime.pool.threads() / layout.ranks());
    for (int i = 0; i < layout.ranks(); ++i) {
      const RankPlace place = place_of(layout, i);
      ranks_.push_back(std::make_unique<LayoutRank>(config.model, layout, place, threads));
    }
  }

  void give(const ParameterTable& whole, const StateSpans<const float>& from,
            int64_t steps) override {
    run_thread_ranks(config_.layout, [&](const Ranks& ranks) {
      LayoutRank& rank = at(ranks);
      part(ranks.place).give(whole, from, rank.numbers());
      rank.loaded(runtime_.kernels, steps);
    });
  }

  StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                  const StepConfig& config) override {
    const Layout& layout = config_.layout;
    const RotaryView rotary = rotary_.view_for(positions_of(config_.model, samples), runtime_.pool);
    std::optional<RankEvents> events;
    if (runtime_.sink != nullptr) events.emplace(*runtime_.sink, config_.model);
    SharedProgress progress(config.progress);
    StepResult out;
    out.scores.resize(samples.size());
    out.terms.resize(samples.size());
    // Ranks write into `out` at once: each data-parallel rank at its own samples, and the first of
    // them the numbers of the step, which are the same on all.
    run_thread_ranks(layout, [&](const Ranks& ranks) {
      const RankPlace& place = ranks.place;
      const auto sink = events ? events->sink(layout, place) : nullptr;
      const kernels::Range dealt = dealt_samples(std::ssize(samples), place.dp, layout.dp);
      const auto first = static_cast<size_t>(dealt.begin), n = static_cast<size_t>(dealt.size());
      const bool tells = tells_result(layout, place);
      StepConfig own = config;
      own.progress = tells && config.progress ? progress.of_rank() : nullptr;
      StepResult result = at(ranks).step(runtime_.kernels, ranks, sink.get(), rotary,
                                         samples.subspan(first, n), targets.subspan(first, n), own);
      if (tells) put_result(out, place, first, std::move(result));
    });
    return out;
  }

  std::vector<Sample> generate(std::span<const Request> requests, const RolloutConfig& config,
                               const std::function<void(int64_t)>& progress) override {
    const RotaryView rotary =
        rotary_.view_for(positions_of(config_.model, requests, config.max_response), runtime_.pool);
    std::optional<RankEvents> events;
    if (runtime_.sink != nullptr) events.emplace(*runtime_.sink, config_.model);
    SharedProgress shared(progress);
    return read<Sample>(requests, [&](const Ranks& ranks, std::span<const Request> own) {
      const auto sink = events ? events->sink(reading(config_.layout), ranks.place) : nullptr;
      const bool tells = tells_read(config_.layout, ranks.place) && progress;
      return at(ranks).generate(runtime_.kernels, ranks, sink.get(), rotary, own, config,
                                tells ? shared.of_rank() : nullptr);
    });
  }

  std::vector<Scores> score(std::span<const Sample> samples, float temperature,
                            int64_t micro_batch_size) override {
    const RotaryView rotary = rotary_.view_for(positions_of(config_.model, samples), runtime_.pool);
    return read<Scores>(samples, [&](const Ranks& ranks, std::span<const Sample> own) {
      return at(ranks).score(runtime_.kernels, ranks, rotary, own, temperature, micro_batch_size);
    });
  }

  void take(const ParameterTable& whole, const StateSpans<float>& to,
            std::span<int64_t> sums) override {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const RankPlace place = place_of(config_.layout, static_cast<int>(i));
      if (is_copy(config_.layout, place)) continue;
      const auto own = ranks_[i]->numbers();
      part(place).take(whole, {own.weights, own.first_moments, own.second_moments, own.sums}, to,
                       sums);
    }
  }

 private:
  /// What came of each of `all`: of_rank(ranks, own) of those that a rank takes.
  template <class Out, class In, class OfRank>
  std::vector<Out> read(std::span<const In> all, const OfRank& of_rank) {
    std::vector<Out> out(all.size());
    run_thread_ranks(config_.layout, [&](const Ranks& ranks) {
      const kernels::Range dealt = dealt_to_read(all.size(), config_.layout, ranks.place);
      const auto first = static_cast<size_t>(dealt.begin), n = static_cast<size_t>(dealt.size());
      std::vector<Out> own = of_rank(ranks, all.subspan(first, n));
      if (tells_read(config_.layout, ranks.place)) {
        std::ranges::move(own, out.begin() + dealt.begin);
      }
    });
    return out;
  }

  LayoutRank& at(const Ranks& ranks) {
    return *ranks_[static_cast<size_t>(rank_of(config_.layout, ranks.place))];
  }
  RankPart part(const RankPlace& place) const {
    return RankPart(config_.model, config_.layout, place);
  }

  const Runtime& runtime_;
  const BackendConfig config_;
  GrowingRotary rotary_;
  std::vector<std::unique_ptr<LayoutRank>> ranks_;
};

}  // namespace

std::unique_ptr<RankTeam> make_thread_team(const Runtime& runtime, const BackendConfig& config) {
  return std::make_unique<ThreadTeam>(runtime, config);
}

}  // namespace rlreplay::engine

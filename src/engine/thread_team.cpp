#include <algorithm>
#include <optional>

#include "src/engine/layout_rank.h"
#include "src/engine/rank_events.h"
#include "src/engine/rank_team.h"
#include "src/engine/thread_ranks.h"

namespace rlreplay::engine {
namespace {

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
    const RotaryView rotary = rotary_.view_for(samples, runtime_.pool);
    std::optional<RankEvents> events;
    if (runtime_.sink != nullptr) events.emplace(*runtime_.sink, config_.model);
    SharedProgress progress(config.progress);
    StepResult out;
    out.scores.resize(samples.size());
    out.terms.resize(samples.size());
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

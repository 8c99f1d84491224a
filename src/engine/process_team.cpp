#include <algorithm>
#include <memory>
#include <optional>

#include "src/base/error.h"
#include "src/engine/layout_rank.h"
#include "src/engine/rank_events.h"
#include "src/engine/rank_host.h"
#include "src/engine/rank_orders.h"
#include "src/engine/rank_team.h"
#include "src/engine/remote_events.h"
#include "src/engine/socket_ranks.h"

namespace rlreplay::engine {
namespace {

constexpr RankCall kTeamCall{GroupName::kWorld, RankCall::Kind::kOrder};

SharedBytes packed(Packer& packer) {
  return std::make_shared<std::vector<std::byte>>(packer.take());
}

/// What the other ranks tell rank 0 while a step goes on: events and progress.
class StepListener {
 public:
  StepListener(const Runtime& runtime, const BackendConfig& config,
               const std::function<void(int64_t)>& tell)
      : progress_(tell) {
    if (runtime.sink != nullptr) events_.emplace(*runtime.sink, config.model);
    for (int i = 0; i < config.layout.ranks(); ++i) {
      const RankPlace place = place_of(config.layout, i);
      sinks_.push_back(events_ ? events_->sink(config.layout, place) : nullptr);
      finished_.push_back(progress_.of_rank());
    }
  }

  EventSink* sink(int rank) const { return sinks_[static_cast<size_t>(rank)].get(); }
  const std::function<void(int64_t)>& finished(int rank) const {
    return finished_[static_cast<size_t>(rank)];
  }

  void hear(int rank, std::span<const std::byte> note) {
    Unpacker from(note);
    if (from.take<RankNote>() == RankNote::kProgress) {
      finished(rank)(from.take<int64_t>());
    } else if (EventSink* const shown = sink(rank)) {
      show_note(note, *shown);
    }
  }

 private:
  std::optional<RankEvents> events_;
  SharedProgress progress_;
  std::vector<std::unique_ptr<EventSink>> sinks_;  // by rank
  std::vector<std::function<void(int64_t)>> finished_;
};

/// Rank 0 of ranks that are processes: an order to each, the own part of the work (own_), then the
/// others' results in the order of ranks. Orders and results have a call of their own; what a step
/// exchanges goes through ranks_.
class ProcessTeam : public RankTeam {
 public:
  ProcessTeam(const Runtime& runtime, const BackendConfig& config)
      : runtime_(runtime),
        config_(config),
        mesh_(runtime.host->start(config.layout)),
        threads_(runtime.host->threads_of_rank(config.layout, runtime.pool.threads())),
        ranks_(*mesh_, config.layout),
        rotary_(config.model, config.rope),
        own_(config.model, config.layout, {}, threads_) {
    Packer packer;
    pack(packer.add(RankOrder::kOpen),
         RankOpening{config.model, config.rope, config.layout, threads_, mesh_->silence()});
    order_all(packed(packer));
  }

  ~ProcessTeam() override {
    try {
      Packer packer;
      order_all(packed(packer.add(RankOrder::kClose)));
    } catch (const Error&) {  // the ranks have failed, which was said
    }
  }

  void give(const ParameterTable& whole, const StateSpans<const float>& from,
            int64_t steps) override {
    part(0).give(whole, from, own_.numbers());
    for (int i = 1; i < mesh_->size(); ++i) {
      const RankPart to = part(i);
      const auto moments = static_cast<size_t>(to.moments());
      std::vector<float> weights(static_cast<size_t>(to.elements())), first(moments),
          second(moments);
      to.give(whole, from, {weights, first, second, {}});
      Packer packer;
      packer.add(RankOrder::kGive).add(weights).add(first).add(second).add(steps);
      mesh_->send(i, kTeamCall, packed(packer), 0);
    }
    own_.loaded(runtime_.kernels, steps);
  }

  StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                  const StepConfig& config) override {
    StepListener listener(runtime_, config_, config.progress);
    const auto heard = mesh_->listen(
        [&](int from, std::span<const std::byte> note) { listener.hear(from, note); });
    for (int i = 1; i < mesh_->size(); ++i) order_step(i, listener, samples, targets, config);
    StepResult out;
    out.scores.resize(samples.size());
    out.terms.resize(samples.size());
    try {
      StepConfig own = config;
      own.progress =
          tells_result(config_.layout, {}) && config.progress ? listener.finished(0) : nullptr;
      const kernels::Range dealt = dealt_to(0, samples);
      StepResult result = own_.step(runtime_.kernels, ranks_.ranks(), listener.sink(0),
                                    rotary_.view_for(samples, own_.pool()), of(samples, dealt),
                                    of(targets, dealt), own);
      if (tells_result(config_.layout, {})) put_result(out, {}, 0, std::move(result));
    } catch (const Error& e) {
      mesh_->fail(e);
      throw;
    }
    for (int i = 1; i < mesh_->size(); ++i) hear_result(i, samples, out);
    return out;
  }

  void see_alive() const override { mesh_->see_alive(); }

  void take(const ParameterTable& whole, const StateSpans<float>& to,
            std::span<int64_t> sums) override {
    Packer packer;
    order_all(packed(packer.add(RankOrder::kTake)));
    const auto own = own_.numbers();
    part(0).take(whole, {own.weights, own.first_moments, own.second_moments, own.sums}, to, sums);
    for (int i = 1; i < mesh_->size(); ++i) {
      const std::vector<std::byte> bytes = mesh_->receive(i, kTeamCall, 0);
      if (is_copy(config_.layout, place(i))) continue;
      Unpacker from(bytes);
      std::vector<float> weights, first, second;
      std::vector<int64_t> of_rank;
      from.take(weights);
      from.take(first);
      from.take(second);
      from.take(of_rank);
      part(i).take(whole, {weights, first, second, of_rank}, to, sums);
    }
  }

 private:
  RankPlace place(int rank) const { return place_of(config_.layout, rank); }
  RankPart part(int rank) const { return RankPart(config_.model, config_.layout, place(rank)); }

  kernels::Range dealt_to(int rank, std::span<const Sample> samples) const {
    return dealt_samples(std::ssize(samples), place(rank).dp, config_.layout.dp);
  }
  template <class T>
  static std::span<const T> of(std::span<const T> all, kernels::Range dealt) {
    return all.subspan(static_cast<size_t>(dealt.begin), static_cast<size_t>(dealt.size()));
  }

  void order_all(const SharedBytes& order) {
    for (int i = 1; i < mesh_->size(); ++i) mesh_->send(i, kTeamCall, order, 0);
  }

  void order_step(int rank, const StepListener& listener, std::span<const Sample> samples,
                  std::span<const SampleTargets> targets, const StepConfig& config) {
    const kernels::Range dealt = dealt_to(rank, samples);
    const auto own = of(samples, dealt);
    const auto own_targets = of(targets, dealt);
    RankStep step{
        {own.begin(), own.end()}, {own_targets.begin(), own_targets.end()}, config, false, {}};
    step.tells_progress = config.progress && tells_result(config_.layout, place(rank));
    if (listener.sink(rank) != nullptr) {
      step.wanted = wanted_events(*listener.sink(rank), config_.model);
    }
    Packer packer;
    pack(packer.add(RankOrder::kStep), step);
    mesh_->send(rank, kTeamCall, packed(packer), 0);
  }

  /// Every rank answers: what it has shown was heard before.
  void hear_result(int rank, std::span<const Sample> samples, StepResult& out) {
    const std::vector<std::byte> bytes = mesh_->receive(rank, kTeamCall, 0);
    if (!tells_result(config_.layout, place(rank))) return;
    Unpacker from(bytes);
    StepResult result;
    unpack(from, result);
    const kernels::Range dealt = dealt_to(rank, samples);
    check(std::ssize(result.scores) == dealt.size(), "a rank answers for other samples");
    put_result(out, place(rank), static_cast<size_t>(dealt.begin), std::move(result));
  }

  const Runtime& runtime_;
  const BackendConfig config_;
  const std::shared_ptr<RankMesh> mesh_;
  const int threads_;  // of each rank
  const SocketRanks ranks_;
  GrowingRotary rotary_;
  LayoutRank own_;
};

}  // namespace

std::unique_ptr<RankTeam> make_process_team(const Runtime& runtime, const BackendConfig& config) {
  return std::make_unique<ProcessTeam>(runtime, config);
}

}  // namespace rlreplay::engine

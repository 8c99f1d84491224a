#include <algorithm>
#include <memory>
#include <optional>

#include "src/base/error.h"
#include "src/engine/growing_rotary.h"
#include "src/engine/layout_rank.h"
#include "src/engine/rank_events.h"
#include "src/engine/rank_host.h"
#include "src/engine/rank_orders.h"
#include "src/engine/rank_team.h"
#include "src/engine/remote_events.h"
#include "src/engine/socket_ranks.h"

namespace rlreplay::engine {
namespace {

SharedBytes packed(Packer& packer) {
  return std::make_shared<std::vector<std::byte>>(packer.take());
}

constexpr const char* kOthers = "a rank answers for other samples";

/// What the other ranks tell rank 0 while they work: events and progress.
class WorkListener {
 public:
  WorkListener(const Runtime& runtime, const ModelConfig& model, const Layout& layout,
               const std::function<void(int64_t)>& tell)
      : progress_(tell) {
    if (runtime.sink != nullptr) events_.emplace(*runtime.sink, model);
    for (int i = 0; i < layout.ranks(); ++i) {
      const RankPlace place = place_of(layout, i);
      sinks_.push_back(events_ ? events_->sink(layout, place) : nullptr);
      finished_.push_back(progress_.of_rank());
    }
  }

  EventSink* sink(int rank) const { return sinks_[static_cast<size_t>(rank)].get(); }
  const std::function<void(int64_t)>& finished(int rank) const {
    return finished_[static_cast<size_t>(rank)];
  }

  /// Notes come on the thread that moves bytes, which sends what a rank waits for besides.
  void hear(RankMesh& mesh, int rank, std::span<const std::byte> note) {
    Unpacker from(note);
    if (from.take<RankNote>() == RankNote::kProgress) {
      finished(rank)(from.take<int64_t>());
    } else if (EventSink* const shown = sink(rank)) {
      const auto changed = show_note(rank, note, *shown);
      if (!changed) return;
      mesh.send(rank, kPartCall, std::make_shared<std::vector<std::byte>>(*changed), 0);
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
      mesh_->send(i, kOrderCall, packed(packer), 0);
    }
    own_.loaded(runtime_.kernels, steps);
  }

  StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                  const StepConfig& config) override {
    WorkListener listener(runtime_, config_.model, config_.layout, config.progress);
    StepResult out;
    out.scores.resize(samples.size());
    out.terms.resize(samples.size());
    share(
        listener, [&](int i) { order_step(i, listener, samples, targets, config); },
        [&] {
          StepConfig own = config;
          own.progress =
              tells_result(config_.layout, {}) && config.progress ? listener.finished(0) : nullptr;
          const kernels::Range dealt = dealt_to(0, samples);
          StepResult result =
              own_.step(runtime_.kernels, ranks_.ranks(), listener.sink(0),
                        rotary_.view_for(positions_of(config_.model, samples), own_.pool()),
                        of(samples, dealt), of(targets, dealt), own);
          if (tells_result(config_.layout, {})) put_result(out, {}, 0, std::move(result));
        },
        [&](int i, Unpacker& from) {
          if (!tells_result(config_.layout, place(i))) return;
          StepResult result;
          unpack(from, result);
          const kernels::Range dealt = dealt_to(i, samples);
          check(std::ssize(result.scores) == dealt.size(), kOthers);
          put_result(out, place(i), static_cast<size_t>(dealt.begin), std::move(result));
        });
    return out;
  }

  std::vector<Sample> generate(std::span<const Request> requests, const RolloutConfig& config,
                               const std::function<void(int64_t)>& progress) override {
    WorkListener listener(runtime_, config_.model, reading(config_.layout), progress);
    const auto order = [&](int i, std::span<const Request> own, Packer& to) {
      std::vector<Event> wanted;
      if (const EventSink* sink = listener.sink(i)) {
        wanted = wanted_events(config_.model, [&](const Event& e) { return sink->wants(e); });
      }
      pack(to.add(RankOrder::kGenerate),
           RankRollout{{own.begin(), own.end()}, config, std::move(wanted)});
    };
    const auto own_part = [&](std::span<const Request> own) {
      const auto tell = [&](int64_t finished) {
        mesh_->see_alive();
        if (tells_read(config_.layout, {})) listener.finished(0)(finished);
      };
      const int64_t positions = positions_of(config_.model, requests, config.max_response);
      return own_.generate(runtime_.kernels, ranks_.ranks(), listener.sink(0),
                           rotary_.view_for(positions, own_.pool()), own, config, tell);
    };
    return read<Sample>(listener, requests, order, own_part);
  }

  std::vector<Scores> score(std::span<const Sample> samples, float temperature,
                            int64_t micro_batch_size) override {
    WorkListener listener(runtime_, config_.model, config_.layout, {});
    const auto order = [&](int, std::span<const Sample> own, Packer& to) {
      pack(to.add(RankOrder::kScore),
           RankScoring{{own.begin(), own.end()}, temperature, micro_batch_size});
    };
    const auto own_part = [&](std::span<const Sample> own) {
      return own_.score(runtime_.kernels, ranks_.ranks(),
                        rotary_.view_for(positions_of(config_.model, samples), own_.pool()), own,
                        temperature, micro_batch_size);
    };
    return read<Scores>(listener, samples, order, own_part);
  }

  void take(const ParameterTable& whole, const StateSpans<float>& to,
            std::span<int64_t> sums) override {
    Packer packer;
    order_all(packed(packer.add(RankOrder::kTake)));
    const auto own = own_.numbers();
    part(0).take(whole, {own.weights, own.first_moments, own.second_moments, own.sums}, to, sums);
    for (int i = 1; i < mesh_->size(); ++i) {
      const std::vector<std::byte> bytes = mesh_->receive(i, kOrderCall, 0);
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
    for (int i = 1; i < mesh_->size(); ++i) mesh_->send(i, kOrderCall, order, 0);
  }

  void order_step(int rank, const WorkListener& listener, std::span<const Sample> samples,
                  std::span<const SampleTargets> targets, const StepConfig& config) {
    const kernels::Range dealt = dealt_to(rank, samples);
    const auto own = of(samples, dealt);
    const auto own_targets = of(targets, dealt);
    RankStep step;
    step.samples.assign(own.begin(), own.end());
    step.targets.assign(own_targets.begin(), own_targets.end());
    step.config = config;
    step.tells_progress = config.progress && tells_result(config_.layout, place(rank));
    if (const EventSink* sink = listener.sink(rank)) {
      step.wanted = wanted_events(config_.model, [&](const Event& e) { return sink->wants(e); });
      step.wanted_parts =
          wanted_events(config_.model, [&](const Event& e) { return sink->wants_part(e, rank); });
    }
    Packer packer;
    pack(packer.add(RankOrder::kStep), step);
    mesh_->send(rank, kOrderCall, packed(packer), 0);
  }

  /// Work of all ranks: order(rank) to the others, `own` here, hear(rank, answer). Every rank
  /// answers: what it has shown was heard before.
  template <class Order, class Own, class Hear>
  void share(WorkListener& listener, const Order& order, const Own& own, const Hear& hear) {
    const auto heard = mesh_->listen(
        [&](int from, std::span<const std::byte> note) { listener.hear(*mesh_, from, note); });
    for (int i = 1; i < mesh_->size(); ++i) order(i);
    try {
      own();
    } catch (const Error& e) {
      mesh_->fail(e);
      throw;
    }
    for (int i = 1; i < mesh_->size(); ++i) {
      const std::vector<std::byte> bytes = mesh_->receive(i, kOrderCall, 0);
      Unpacker from(bytes);
      hear(i, from);
    }
  }

  /// Lets all ranks share work that only reads the model, and returns what came of each of `all`.
  template <class Out, class In, class Order, class Own>
  std::vector<Out> read(WorkListener& listener, std::span<const In> all, const Order& order,
                        const Own& own) {
    std::vector<Out> out(all.size());
    const auto dealt = [&](int i) { return dealt_to_read(all.size(), config_.layout, place(i)); };
    const auto put = [&](int i, std::vector<Out> read) {
      if (!tells_read(config_.layout, place(i))) return;
      check(std::ssize(read) == dealt(i).size(), kOthers);
      std::ranges::move(read, out.begin() + dealt(i).begin);
    };
    share(
        listener,
        [&](int i) {
          Packer packer;
          order(i, of(all, dealt(i)), packer);
          mesh_->send(i, kOrderCall, packed(packer), 0);
        },
        [&] { put(0, own(of(all, dealt(0)))); },
        [&](int i, Unpacker& from) {
          std::vector<Out> read;
          if (tells_read(config_.layout, place(i))) unpack(from, read);
          put(i, std::move(read));
        });
    return out;
  }

  const Runtime& runtime_;
  const BackendConfig config_;
  const std::shared_ptr<RankMesh> mesh_;  // the host may keep it for the next team
  const int threads_;                     // of each rank
  const SocketRanks ranks_;
  GrowingRotary rotary_;
  LayoutRank own_;
};

}  // namespace

std::unique_ptr<RankTeam> make_process_team(const Runtime& runtime, const BackendConfig& config) {
  return std::make_unique<ProcessTeam>(runtime, config);
}

}  // namespace rlreplay::engine

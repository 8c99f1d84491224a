#include <algorithm>
#include <mutex>
#include <optional>

#include "src/base/error.h"
#include "src/engine/backend.h"
#include "src/engine/check_samples.h"
#include "src/engine/rank_events.h"
#include "src/engine/rotary.h"
#include "src/engine/step_events.h"
#include "src/engine/thread_ranks.h"
#include "src/objective/check_batch.h"

namespace rlreplay::engine {
namespace {

/// What a rank keeps from step to step.
struct Rank {
  ThreadPool pool;
  TrainState state;
  Gradients gradients;

  Rank(int threads, const ModelConfig& config, const Layout& layout, const RankPlace& place)
      : pool(threads), state(config, layout, place), gradients(state.model.parameters()) {}
};

/// Counts the samples that data-parallel ranks finish, for one who is told.
class SharedProgress {
 public:
  explicit SharedProgress(const std::function<void(int64_t)>& tell) : tell_(tell) {}

  std::function<void(int64_t)> of_rank() {
    return [this, before = int64_t{0}](int64_t finished) mutable {
      const std::lock_guard lock(mutex_);
      all_ += finished - before;
      before = finished;
      tell_(all_);
    };
  }

 private:
  const std::function<void(int64_t)>& tell_;
  std::mutex mutex_;
  int64_t all_ = 0;
};

/// Steps run on ranks that are threads; what they hold is put together after each, in one model
/// that generates, scores, and is what a dump records.
class LayoutBackend : public Backend {
 public:
  LayoutBackend(const Runtime& runtime, const BackendConfig& config)
      : runtime_(runtime), config_(config) {
    check_layout(config.model, config.layout);
    BackendConfig alone = config;
    alone.layout = {};
    whole_ = make_portable_backend(runtime, alone);
    gradients_.emplace(whole_->parameters());
    const int count = config.layout.ranks();
    const int threads = std::max(1, runtime.pool.threads() / count);
    for (int i = 0; i < count; ++i) {
      ranks_.push_back(
          std::make_unique<Rank>(threads, config.model, config.layout, place_of(config.layout, i)));
    }
  }

  std::string_view name() const override { return "portable"; }
  const ModelConfig& config() const override { return whole_->config(); }
  const ParameterTable& parameters() const override { return whole_->parameters(); }
  int64_t steps() const override { return whole_->steps(); }
  StateSpans<const float> state() override { return whole_->state(); }
  const Gradients* exact_gradients() const override { return &*gradients_; }

  std::vector<Sample> generate(std::span<const Request> requests, const RolloutConfig& config,
                               const std::function<void(int64_t)>& progress) override {
    return whole_->generate(requests, config, progress);
  }
  std::vector<Scores> score(std::span<const Sample> samples, float temperature,
                            int64_t micro_batch_samples) override {
    return whole_->score(samples, temperature, micro_batch_samples);
  }

  void write_state(int64_t steps, const StateWriter& write) override {
    whole_->write_state(steps, write);
    const StateSpans<const float> from = whole_->state();
    run_thread_ranks(config_.layout, [&](const Ranks& ranks) {
      Rank& rank = at(ranks);
      give(from, rank);
      rank.state.step = steps;
      rank.state.model.pack({runtime_.kernels, rank.pool}, true);
    });
  }

  StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                  const StepConfig& config) override {
    check_samples(whole_->config(), samples);
    check_batch(config.objective, samples, targets);
    StepResult out;
    try {
      out = step_in_ranks(samples, targets, config);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kCorrupt && e.code() != ErrorCode::kUnsupported) throw;
      // The same numbers in one rank: there the first that is wrong is found and named.
      if (runtime_.sink != nullptr) runtime_.sink->restart();
      whole_->step(samples, targets, config);
      throw Error(ErrorCode::kInternal,
                  std::string("ranks refuse a step that one rank takes: ") + e.what(), e.where());
    }
    put_together(out.scale);
    return out;
  }

 private:
  Rank& at(const Ranks& ranks) {
    return *ranks_[static_cast<size_t>(rank_of(config_.layout, ranks.place))];
  }

  /// A rank's part of a whole state.
  void give(const StateSpans<const float>& from, Rank& rank) const {
    const ShardTable& shard = rank.state.model.shard_table();
    const auto copy = [&](std::span<const float> whole, Buffer<float>& to, kernels::Range held) {
      for_shard_runs(shard, whole_->parameters(), held, false,
                     [&](int64_t local, int64_t of_whole, int64_t n) {
                       std::copy_n(whole.data() + of_whole, n, to.data() + local - held.begin);
                     });
    };
    Moments& moments = rank.state.moments;
    copy(from.weights, rank.state.model.weights(), {0, shard.table.elements});
    copy(from.first_moments, moments.first, moments.held);
    copy(from.second_moments, moments.second, moments.held);
  }

  /// What a rank answers for, into the whole. Ranks of dp and cp hold the same, but for moments.
  void take(const Rank& rank, const StateSpans<float>& to) {
    const ShardTable& shard = rank.state.model.shard_table();
    const auto copy = [&](const auto& from, auto* whole, kernels::Range held) {
      for_shard_runs(shard, whole_->parameters(), held, true,
                     [&](int64_t local, int64_t of_whole, int64_t n) {
                       std::copy_n(from.data() + local - held.begin, n, whole + of_whole);
                     });
    };
    const Moments& moments = rank.state.moments;
    const kernels::Range all{0, shard.table.elements};
    copy(rank.state.model.weights(), to.weights.data(), all);
    copy(rank.gradients.sums(), gradients_->all_sums().data(), all);
    copy(moments.first, to.first_moments.data(), moments.held);
    copy(moments.second, to.second_moments.data(), moments.held);
  }

  StepResult step_in_ranks(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                           const StepConfig& config) {
    const Layout& layout = config_.layout;
    const RotaryView rotary = rotary_for(samples);
    std::optional<RankEvents> events;
    if (runtime_.sink != nullptr) events.emplace(*runtime_.sink, config_.model);
    SharedProgress progress(config.progress);
    StepResult out;
    out.scores.resize(samples.size());
    out.terms.resize(samples.size());
    run_thread_ranks(layout, [&](const Ranks& ranks) {
      Rank& rank = at(ranks);
      const RankPlace& place = ranks.place;
      const auto sink = events ? events->sink(layout, place) : nullptr;
      const kernels::Range dealt = dealt_samples(std::ssize(samples), place.dp, layout.dp);
      const auto first = static_cast<size_t>(dealt.begin), n = static_cast<size_t>(dealt.size());
      // One rank of those that see the same samples tells.
      const bool tells = place.pp == layout.pp - 1 && place.tp == 0 && place.cp == 0;
      StepConfig own = config;
      own.progress = tells && config.progress ? progress.of_rank() : nullptr;
      StepResult result =
          run_step({runtime_.kernels, rank.pool, sink.get(), &ranks}, rank.state, rank.gradients,
                   rotary, samples.subspan(first, n), targets.subspan(first, n), own);
      if (!tells) return;
      for (size_t i = 0; i < n; ++i) {
        out.scores[first + i] = std::move(result.scores[i]);
        out.terms[first + i] = std::move(result.terms[i]);
      }
      if (place.dp > 0) return;
      out.losses = result.losses;
      out.grad_norm = result.grad_norm;
      out.clip_scale = result.clip_scale;
      out.scale = result.scale;
    });
    return out;
  }

  void put_together(int scale) {
    gradients_->begin(scale, {});
    gradients_->finish();
    whole_->write_state(whole_->steps() + 1, [&](const StateSpans<float>& state) {
      for (size_t i = 0; i < ranks_.size(); ++i) {
        const RankPlace place = place_of(config_.layout, static_cast<int>(i));
        const bool copies = place.cp > 0 || (place.dp > 0 && !config_.layout.zero);
        if (!copies) take(*ranks_[i], state);
      }
      show(state);
    });
  }

  /// The events of whole parameters.
  void show(const StateSpans<float>& state) {
    if (runtime_.sink == nullptr) return;
    emit_gradients(runtime_, whole_->parameters(), *gradients_);
    for (const Parameter& p : whole_->parameters().list) {
      const auto emit = [&](Op op, std::span<float> values) {
        runtime_.emit_whole({Phase::kOptimizer, p.layer, op, p.name},
                            kernels::Matrix<float>(values.data() + p.offset, p.rows, p.cols));
      };
      emit(Op::kExpAvg, state.first_moments);
      emit(Op::kExpAvgSq, state.second_moments);
      emit(Op::kWeight, state.weights);
    }
  }

  RotaryView rotary_for(std::span<const Sample> samples) {
    int64_t positions = 1;
    for (const Sample& s : samples) positions = std::max(positions, std::ssize(s.tokens));
    if (!rotary_ || rotary_->cos().rows < positions) {
      rotary_.emplace(make_rotary_table(config_.model, config_.rope, positions, runtime_.pool));
    }
    return view(*rotary_);
  }

  const Runtime& runtime_;
  const BackendConfig config_;
  std::unique_ptr<Backend> whole_;
  std::optional<Gradients> gradients_;  // of the whole
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::optional<kernels::RotaryTable> rotary_;
};

}  // namespace

std::unique_ptr<Backend> make_layout_backend(const Runtime& runtime, const BackendConfig& config) {
  return std::make_unique<LayoutBackend>(runtime, config);
}

}  // namespace rlreplay::engine

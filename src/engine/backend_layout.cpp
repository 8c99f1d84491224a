#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/engine/backend.h"
#include "src/engine/check_samples.h"
#include "src/engine/rank_team.h"
#include "src/engine/step_events.h"
#include "src/objective/check_batch.h"

namespace rlreplay::engine {
namespace {

/// Steps, rollouts and scores run on ranks; what they hold is put together after each step, in one
/// model, which is what a dump records.
class LayoutBackend : public Backend {
 public:
  LayoutBackend(const Runtime& runtime, const BackendConfig& config)
      : runtime_(runtime), alone_(runtime.with(nullptr)), config_(config) {
    check_layout(config.model, config.layout);
    BackendConfig alone = config;
    alone.layout = {};
    whole_ = make_portable_backend(alone_, alone);
    gradients_.emplace(whole_->parameters());
    team_ = runtime.host == nullptr ? make_thread_team(runtime, config)
                                    : make_process_team(runtime, config);
  }

  std::string_view name() const override { return "portable"; }
  const ModelConfig& config() const override { return whole_->config(); }
  const ParameterTable& parameters() const override { return whole_->parameters(); }
  int64_t steps() const override { return whole_->steps(); }
  StateSpans<const float> state() override { return whole_->state(); }
  const Gradients* exact_gradients() const override { return &*gradients_; }

  std::vector<Sample> generate(std::span<const Request> requests, const RolloutConfig& config,
                               const std::function<void(int64_t)>& progress) override {
    check_requests(whole_->config(), requests, config);
    RolloutConfig of_rank = config;
    of_rank.slots =
        std::max<int64_t>(1, config.slots / (int64_t{config_.layout.dp} * config_.layout.cp));
    return as_one_rank<std::vector<Sample>>(
        [&] { return team_->generate(requests, of_rank, progress); },
        [&] { static_cast<void>(whole_->generate(requests, config, {})); });
  }
  std::vector<Scores> score(std::span<const Sample> samples, float temperature,
                            int64_t micro_batch_size) override {
    check_samples(whole_->config(), samples);
    return as_one_rank<std::vector<Scores>>(
        [&] { return team_->score(samples, temperature, micro_batch_size); },
        [&] { static_cast<void>(whole_->score(samples, temperature, micro_batch_size)); });
  }

  void write_state(int64_t steps, const StateWriter& write) override {
    whole_->write_state(steps, write);
    team_->give(whole_->parameters(), whole_->state(), steps);
  }

  StepResult step(std::span<const Sample> samples, std::span<const SampleTargets> targets,
                  const StepConfig& config) override {
    check_samples(whole_->config(), samples);
    check_batch(config.objective, samples, targets);
    StepResult out =
        as_one_rank<StepResult>([&] { return team_->step(samples, targets, config); },
                                [&] {
                                  alone_.sink = runtime_.sink;
                                  if (alone_.sink != nullptr) alone_.sink->restart();
                                  static_cast<void>(whole_->step(samples, targets, config));
                                });
    put_together(out.scale);
    return out;
  }

 private:
  /// What ranks refuse is computed again by `alone`, in one rank: there the first number that is
  /// wrong is found and named.
  template <class T>
  T as_one_rank(const std::function<T()>& in_ranks, const std::function<void()>& alone) {
    try {
      return in_ranks();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kCorrupt && e.code() != ErrorCode::kUnsupported) throw;
      alone();
      throw Error(ErrorCode::kInternal,
                  std::string("ranks refuse what one rank computes: ") + e.what(), e.where());
    }
  }

  void put_together(int scale) {
    gradients_->begin(scale, {});
    gradients_->finish();
    whole_->write_state(whole_->steps() + 1, [&](const StateSpans<float>& state) {
      team_->take(whole_->parameters(), state, gradients_->all_sums());
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

  const Runtime& runtime_;
  Runtime alone_;  // of whole_
  const BackendConfig config_;
  std::unique_ptr<Backend> whole_;
  std::optional<Gradients> gradients_;  // of the whole
  std::unique_ptr<RankTeam> team_;
};

}  // namespace

std::unique_ptr<Backend> make_layout_backend(const Runtime& runtime, const BackendConfig& config) {
  return std::make_unique<LayoutBackend>(runtime, config);
}

}  // namespace rlreplay::engine

#include <algorithm>
#include <optional>

#include "format/rollout_data.h"
#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/progress.h"
#include "src/base/with_place.h"
#include "src/replay/capture/state_data.h"
#include "src/replay/record/recorded_step.h"
#include "src/replay/rerun/beside_values.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/rerun/rollout_values.h"
#include "src/replay/rerun/watch.h"

namespace rlreplay::replay {
namespace {

std::vector<engine::Request> requests_of(std::span<const Sample> samples) {
  std::vector<engine::Request> out;
  for (const Sample& s : samples) {
    out.push_back({s.id, s.group, {s.tokens.begin(), s.tokens.begin() + s.prompt_length}});
  }
  return out;
}

int64_t different_tokens(std::span<const Sample> a, std::span<const Sample> b) {
  int64_t out = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t common = std::min(a[i].tokens.size(), b[i].tokens.size());
    out += static_cast<int64_t>(std::max(a[i].tokens.size(), b[i].tokens.size()) - common);
    for (size_t t = 0; t < common; ++t) out += a[i].tokens[t] != b[i].tokens[t] ? 1 : 0;
  }
  return out;
}

std::optional<LogProbDifference> compare(std::span<const Sample> recorded,
                                         std::span<const Sample> replayed) {
  std::vector<std::vector<float>> a, b;
  for (size_t i = 0; i < recorded.size(); ++i) {
    a.push_back(recorded[i].rollout_log_probs);
    b.push_back(replayed[i].rollout_log_probs);
    if (a.back().size() != b.back().size()) return std::nullopt;
  }
  return compare_log_probs(recorded, b, a);
}

ReplayedRollout replay_rollout(const RecordedRun& record, int64_t id, Trainer& trainer,
                               Watch& watch, const Layouts& layouts) {
  const std::vector<Sample> recorded = replayable_samples(record, id);
  Progress progress("rollout " + std::to_string(id), "samples",
                    static_cast<int64_t>(recorded.size()));
  const std::vector<engine::Request> requests = requests_of(recorded);
  const int64_t version = trainer.backend().steps();
  engine::EventSink* sink = watch.begin(id, 0, recorded);
  const std::vector<Sample> replayed = with_rollout(id, [&] {
    return trainer.generate(requests, sink, [&](int64_t finished) { progress.at(finished); });
  });
  ReplayedRollout out;
  out.id = id;
  out.samples = static_cast<int64_t>(recorded.size());
  for (const Sample& s : recorded) out.tokens += s.response_length();
  out.different_tokens = different_tokens(recorded, replayed);
  if (out.different_tokens == 0) out.log_probs = compare(recorded, replayed);
  const engine::StepEvents before = record.rollout_events(id);
  check_computable(before, record.path());
  const engine::StepEvents events = watch.finish(id, 0);
  out.difference = compare_steps(before, events);
  if (out.difference.origin) out.difference.origin->ranks = layouts.replay.ranks();
  add_statistics(before, events, layouts, out.values);
  const auto data = format::find_rollout_data(record.dump(), id);
  if (!data) return out;
  add_versions(*data, version, out.values);
  add_prompt_values(*data, out.values);
  if (out.different_tokens == 0) {
    std::vector<bool> stopped;
    for (const Sample& s : replayed) stopped.push_back(trainer.has_stopped(s));
    add_finishes(*data, stopped, out.values);
  }
  add_rollout_values(*data, record.config().options, {replayed, out.different_tokens == 0},
                     out.values);
  out.values.in_order();
  return out;
}

/// Sees that the difference is to be planted in a rollout that is generated.
void check_injection(const ReplayPlan& plan, const RecordedRun& record) {
  if (!plan.injection) return;
  const engine::StepEvent& at = plan.injection->at;
  if (at.step_id == 0 && std::ranges::binary_search(record.rollouts(), at.rollout_id)) return;
  throw Error(ErrorCode::kUsage,
              "--inject " + to_string(*plan.injection) + ": the dump has no such rollout; it has " +
                  std::to_string(record.rollouts().front()) + " to " +
                  std::to_string(record.rollouts().back()) + ", written as step 0 of each",
              record.path());
}

}  // namespace

bool replay_rollouts(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     Trainer& trainer, ThreadPool& pool,
                     const std::function<void(const ReplayedRollout&)>& report) {
  if (record.rollouts().empty()) {
    throw Error(ErrorCode::kUsage, "the dump holds no rollouts", record.path());
  }
  check_injection(plan, record);
  Watch watch(options, plan, trainer, pool);
  const Layouts layouts{parse_layout(record.config().options.layout), parse_layout(options.layout)};
  bool identical = true;
  std::optional<int64_t> before;
  for (const int64_t id : record.rollouts()) {
    if (record.has_state({id, 0})) {
      read_state(record, {id, 0}, trainer.backend());
    } else if (!before || id != *before + 1) {
      throw Error(ErrorCode::kIncomplete,
                  "the dump holds no weights before rollout " + std::to_string(id) +
                      "; capture with --weights first or all",
                  record.path());
    }
    const ReplayedRollout rollout = replay_rollout(record, id, trainer, watch, layouts);
    report(rollout);
    identical = identical && rollout.identical();
    if (!identical && plan.stop_at_first) return false;
    if (id == record.rollouts().back()) break;  // nothing follows from its steps
    if (!record.has_state({id + 1, 0})) train_through(record, options, id, trainer, pool);
    before = id;
  }
  watch.check_planted();
  return identical;
}

}  // namespace rlreplay::replay

#include <algorithm>

#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/progress.h"
#include "src/replay/replay.h"
#include "src/replay/watch.h"

namespace rlreplay::replay {
namespace {

std::vector<engine::Request> requests_of(std::span<const engine::Sample> samples) {
  std::vector<engine::Request> out;
  for (const engine::Sample& s : samples) {
    out.push_back({s.id, s.group, {s.tokens.begin(), s.tokens.begin() + s.prompt_length}});
  }
  return out;
}

int64_t different_tokens(std::span<const engine::Sample> a, std::span<const engine::Sample> b) {
  int64_t out = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t common = std::min(a[i].tokens.size(), b[i].tokens.size());
    out += static_cast<int64_t>(std::max(a[i].tokens.size(), b[i].tokens.size()) - common);
    for (size_t t = 0; t < common; ++t) out += a[i].tokens[t] != b[i].tokens[t] ? 1 : 0;
  }
  return out;
}

std::optional<LogProbDifference> compare(std::span<const engine::Sample> recorded,
                                         std::span<const engine::Sample> replayed) {
  std::vector<std::vector<float>> a, b;
  for (size_t i = 0; i < recorded.size(); ++i) {
    a.push_back(recorded[i].rollout_log_probs);
    b.push_back(replayed[i].rollout_log_probs);
    if (a.back().size() != b.back().size()) return std::nullopt;
  }
  return compare_log_probs(recorded, b, a);
}

ReplayedRollout replay_rollout(const RecordedRun& record, int64_t id, Trainer& trainer,
                               Watch& watch) {
  const std::vector<engine::Sample> recorded = record.samples(id);
  Progress progress("rollout " + std::to_string(id), "samples",
                    static_cast<int64_t>(recorded.size()));
  const std::vector<engine::Sample> replayed =
      trainer.generate(requests_of(recorded), watch.begin(id, 0, recorded),
                       [&](int64_t finished) { progress.at(finished); });
  ReplayedRollout out;
  out.id = id;
  out.samples = static_cast<int64_t>(recorded.size());
  out.different_tokens = different_tokens(recorded, replayed);
  if (out.different_tokens == 0) out.log_probs = compare(recorded, replayed);
  out.difference = compare_steps(record.rollout_events(id), watch.finish(id, 0));
  return out;
}

}  // namespace

bool replay_rollouts(const RecordedRun& record, const RunOptions& options, const ReplayPlan& plan,
                     Trainer& trainer, ThreadPool& pool,
                     const std::function<void(const ReplayedRollout&)>& report) {
  Watch watch(options, plan, trainer, pool);
  bool identical = true;
  for (const int64_t id : record.rollouts()) {
    if (record.has_state({id, 0})) {
      record.load_state({id, 0}, trainer.backend());
    } else if (id == record.rollouts().front()) {
      throw Error(ErrorCode::kIncomplete,
                  "the dump holds no weights before rollout " + std::to_string(id) +
                      "; capture with --weights first or all",
                  record.path());
    }
    const ReplayedRollout rollout = replay_rollout(record, id, trainer, watch);
    report(rollout);
    identical = identical && rollout.identical();
    if (!identical && plan.stop_at_first) break;
    if (id == record.rollouts().back()) break;  // nothing follows from its steps
    if (!record.has_state({id + 1, 0})) train_through(record, options, id, trainer, pool);
  }
  return identical;
}

}  // namespace rlreplay::replay

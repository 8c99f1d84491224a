#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/engine/parallel.h"
#include "src/engine/thread_ranks.h"
#include "tests/engine/models.h"

/// Steps of a model in a layout, put together from its ranks.
namespace rlreplay::engine::test {

/// Everything that a step leaves, as bytes where it is many numbers.
struct LayoutRun {
  std::string weights, first_moments, second_moments, sums;
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<uint64_t, std::string> scores;  // by sample
  std::string replicas;                    // the first parameter whose copies differ, if one does
  int scale = 0;
};

struct LayoutTask {
  LayoutTask(const ModelConfig& c, const Batch& b) : config(c), batch(b) {}

  const ModelConfig& config;
  const Batch& batch;
  StepConfig step;
  int steps = 2;
  int threads = 1;  // of each rank
  const kernels::KernelSet* kernels = &kernels::cpu_kernels();
  std::span<const float> weights = {};  // to begin with; random where there are none
  float head_factor = 1;                // multiplies the head's weights
  /// How ranks are run; run_thread_ranks where it is empty.
  std::function<void(const Layout&, const std::function<void(const Ranks&)>&)> run = {};
  /// What a rank shows its events, and who sees that afterwards; empty: nothing.
  std::function<std::unique_ptr<EventSink>(const Ranks&)> sink = {};
  std::function<void(const EventSink&)> shown = {};
};

template <class T>
std::string bytes(const T& v) {
  return std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(v[0]));
}

/// Puts what ranks hold together, and looks whether copies agree.
class Whole {
 public:
  explicit Whole(const ModelConfig& c)
      : table(make_parameters(c)), weights(size()), first(size()), second(size()), sums(size()) {}

  void put(const TrainState& state, const Gradients& gradients) {
    const ShardTable& shard = state.model.shard_table();
    const kernels::Range all{0, shard.table.elements};
    const auto copy = [](const auto& from, auto& to) {
      return [&](int64_t local, int64_t whole, int64_t n) {
        std::copy_n(from.data() + local, n, to.data() + whole);
      };
    };
    for_shard_runs(shard, table, all, true, copy(state.model.weights(), weights));
    const kernels::Range held = state.moments.held;
    for_shard_runs(shard, table, held, true, copy(gradients.sums(), sums));
    const auto shifted = [&](const auto& from, auto& to) {
      return [&, begin = held.begin](int64_t local, int64_t whole, int64_t n) {
        std::copy_n(from.data() + local - begin, n, to.data() + whole);
      };
    };
    for_shard_runs(shard, table, held, true, shifted(state.moments.first, first));
    for_shard_runs(shard, table, held, true, shifted(state.moments.second, second));
  }

  /// The first parameter whose weights or sums a rank holds otherwise than its owner.
  std::string differs(const TrainState& state, const Gradients& gradients) const {
    std::string out;
    const ShardTable& shard = state.model.shard_table();
    const auto compare = [&](kernels::Range held, const auto& own, const auto& all) {
      for_shard_runs(shard, table, held, false, [&](int64_t local, int64_t whole, int64_t n) {
        const auto* begin = own.data() + local;
        if (!std::equal(begin, begin + n, all.data() + whole) && out.empty()) out = name_at(whole);
      });
    };
    compare(state.moments.held, gradients.sums(), sums);
    compare({0, shard.table.elements}, state.model.weights(), weights);
    return out;
  }

  ParameterTable table;
  std::vector<float> weights, first, second;
  std::vector<int64_t> sums;

 private:
  size_t size() const { return static_cast<size_t>(table.elements); }
  std::string name_at(int64_t element) const {
    for (const Parameter& p : table.list) {
      if (element < p.offset + p.size()) return p.name;
    }
    return "?";
  }
};

inline LayoutRun run_layout(const LayoutTask& task, const Layout& layout) {
  const ModelConfig& c = task.config;
  Buffer<float> start(static_cast<size_t>(make_parameters(c).elements));
  const ParameterTable names = make_parameters(c);
  fill_weights(names, start, 7);
  std::copy(task.weights.begin(), task.weights.end(), start.data());
  const Parameter& head = names[names.head];
  for (int64_t i = 0; i < head.size(); ++i) {
    start[static_cast<size_t>(head.offset + i)] *= task.head_factor;
  }
  const Tables tables(c, 1024);
  LayoutRun out;
  Whole whole(c);
  std::mutex mutex;
  const auto work = [&](const Ranks& ranks) {
    ThreadPool pool(task.threads);
    const bool alone = layout.ranks() == 1;
    const std::unique_ptr<EventSink> sink = task.sink ? task.sink(ranks) : nullptr;
    const Runtime runtime{*task.kernels, pool, sink.get(), alone ? nullptr : &ranks};
    TrainState state(c, layout, ranks.place);
    for_shard_runs(state.model.shard_table(), whole.table, {0, state.model.parameters().elements},
                   false, [&](int64_t local, int64_t at, int64_t n) {
                     std::copy_n(start.data() + at, n, state.model.weights().data() + local);
                   });
    state.model.pack(runtime, PackedFor::kTraining);
    Gradients gradients(state.model.parameters());
    const auto samples = static_cast<int64_t>(task.batch.samples.size());
    const kernels::Range dealt = dealt_samples(samples, ranks.place.dp, layout.dp);
    const auto part = [&](const auto& all) {
      return std::span(all).subspan(static_cast<size_t>(dealt.begin),
                                    static_cast<size_t>(dealt.size()));
    };
    StepResult result;
    std::vector<double> norms;
    for (int i = 0; i < task.steps; ++i) {
      result = run_step(runtime, state, gradients, tables.view(), part(task.batch.samples),
                        part(task.batch.targets), task.step);
      norms.push_back(result.grad_norm);
    }
    if (task.shown) task.shown(*sink);
    {
      const std::lock_guard lock(mutex);
      whole.put(state, gradients);
      const Losses& l = result.losses;
      const std::vector<double> losses{l.policy, l.entropy, l.kl, l.total, l.clip_fraction};
      const auto disagrees = [&](const char* what) {
        out.replicas = std::string(what) + " of rank " + std::to_string(ranks.world.rank());
      };
      if (!out.losses.empty() && out.losses != losses) disagrees("losses");
      if (!out.norms.empty() && out.norms != norms) disagrees("norms");
      out.losses = losses;
      out.norms = norms;
      out.scale = result.scale;
      for (size_t i = 0; state.model.shard().last && i < result.scores.size(); ++i) {
        const Scores& s = result.scores[i];
        std::string& known = out.scores[part(task.batch.samples)[i].id];
        if (!known.empty() && known != bytes(s.log_probs) + bytes(s.entropy)) disagrees("scores");
        known = bytes(s.log_probs) + bytes(s.entropy);
      }
    }
    ranks.world.sum({});
    const std::lock_guard lock(mutex);
    const std::string differs = whole.differs(state, gradients);
    if (!differs.empty()) out.replicas = differs;
  };
  (task.run ? task.run : run_thread_ranks)(layout, work);
  out.weights = bytes(whole.weights);
  out.first_moments = bytes(whole.first);
  out.second_moments = bytes(whole.second);
  out.sums = bytes(whole.sums);
  return out;
}

/// What differs between two runs, in the order in which a step computes; empty where nothing does.
inline std::string difference(const LayoutRun& want, const LayoutRun& got) {
  if (!got.replicas.empty()) return "copies: " + got.replicas;
  if (want.scores != got.scores) return "scores";
  if (want.losses != got.losses) return "losses";
  if (want.scale != got.scale) return "scale";
  if (want.sums != got.sums) return "gradients";
  if (want.norms != got.norms) return "norm";
  if (want.first_moments != got.first_moments) return "exp_avg";
  if (want.second_moments != got.second_moments) return "exp_avg_sq";
  if (want.weights != got.weights) return "weights";
  return {};
}

}  // namespace rlreplay::engine::test

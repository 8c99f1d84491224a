#include "src/engine/global_batch.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "src/base/error.h"
#include "src/engine/parallel.h"

namespace rlreplay::engine {
namespace {

/// A sample's header, and which of its columns there are.
struct Announced {
  SampleHeader header;
  bool reference = false, rollout = false;
};

/// Items of all data-parallel ranks.
template <class T>
Gathered<T> of_all_samples(const Runtime& runtime, std::span<const T> own) {
  if (Group* dp = runtime.dp()) return gather_items(*dp, own);
  return {{own.begin(), own.end()}, {0}};
}

std::vector<size_t> by_id(std::span<const SampleHeader> samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return samples[i].id; });
  return order;
}

void check_ids(std::span<const SampleHeader> samples) {
  if (samples.empty()) throw Error(ErrorCode::kUsage, "a step needs samples");
  const std::vector<size_t> order = by_id(samples);
  for (size_t i = 1; i < order.size(); ++i) {
    if (samples[order[i - 1]].id != samples[order[i]].id) continue;
    throw Error(ErrorCode::kUsage, "sample " + std::to_string(samples[order[i]].id) +
                                       " is twice in the batch: ids decide the order of sums");
  }
}

}  // namespace

/// Ranks first tell each other headers, from which weights follow, then what their own samples
/// weigh by them. That is added by id: in whatever order ranks hold the samples, it is the same
/// sum.
GlobalBatch gather_batch(const Runtime& runtime, const ObjectiveConfig& objective, int64_t leaf,
                         std::optional<int64_t> trajectories, std::span<const Sample> samples,
                         std::span<const SampleTargets> targets) {
  std::vector<Announced> own;
  for (size_t i = 0; i < samples.size(); ++i) {
    own.push_back({header_of(samples[i]), !targets[i].ref_log_probs.empty(),
                   !samples[i].rollout_log_probs.empty()});
  }
  const auto all = of_all_samples(runtime, std::span<const Announced>(own));
  GlobalBatch out;
  const Group* dp = runtime.dp();
  out.first = dp == nullptr ? 0 : all.first[static_cast<size_t>(dp->rank())];
  for (const Announced& s : all.items) {
    out.samples.push_back(s.header);
    out.counts.tokens += s.header.tokens;
    out.counts.leaves += kernels::ceil_div(s.header.tokens, leaf);
    out.has_reference |= s.reference;
    out.has_rollout |= s.rollout;
  }
  check_ids(out.samples);
  out.weights = sample_weights(objective.reducer, out.samples, trajectories);
  std::vector<double> chains;
  for (size_t i = 0; i < samples.size(); ++i) {
    chains.push_back(loss_weight(objective, samples[i], targets[i], out.weights[out.first + i]));
  }
  const auto all_chains = of_all_samples(runtime, std::span<const double>(chains));
  for (const size_t i : by_id(out.samples)) out.loss_weight += all_chains.items[i];
  return out;
}

HeldBatch hold_batch(const Runtime& runtime, const ObjectiveConfig& objective, int64_t leaf,
                     std::optional<int64_t> trajectories, std::span<const Sample> samples,
                     std::span<const SampleTargets> targets, int scale) {
  const GlobalBatch whole = gather_batch(runtime, objective, leaf, trajectories, samples, targets);
  HeldBatch out{{}, whole.counts, whole.loss_weight, scale};
  for (size_t i = 0; i < whole.samples.size(); ++i) {
    out.weights[whole.samples[i].id] = whole.weights[i];
  }
  return out;
}

void keep_weights_of(const HeldBatch& whole, GlobalBatch& part) {
  for (size_t i = 0; i < part.samples.size(); ++i) {
    const uint64_t id = part.samples[i].id;
    const auto weight = whole.weights.find(id);
    if (weight == whole.weights.end()) {
      throw Error(ErrorCode::kUsage,
                  "sample " + std::to_string(id) + " is not of the batch that is held");
    }
    part.weights[i] = weight->second;
  }
  part.counts = whole.counts;
  part.loss_weight = whole.loss_weight;
}

Losses gather_losses(const Runtime& runtime, const GlobalBatch& batch,
                     std::span<const Losses> own) {
  Losses out;
  const auto all = of_all_samples(runtime, own);
  if (all.items.size() == batch.samples.size()) {
    for (const size_t i : by_id(batch.samples)) add(out, all.items[i]);
  }
  if (runtime.ranks == nullptr) return out;
  return gather_items(runtime.ranks->pp, std::span<const Losses>(&out, 1)).items.back();
}

}  // namespace rlreplay::engine

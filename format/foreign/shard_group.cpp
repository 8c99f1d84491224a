#include "format/foreign/shard_group.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "format/foreign/replicas.h"
#include "format/foreign/train_columns.h"

namespace rlreplay::foreign {
namespace {

size_t filled_columns(const TrainShard& shard) {
  return static_cast<size_t>(std::ranges::count_if(kTrainColumns, [&](const TrainColumn& column) {
    return column.is_cut() && fills(shard, column.name);
  }));
}

/// Where copies contradict each other the first one is the step's: the loss is computed on the last
/// stage of a pipeline, which alone holds what it is computed from, and there tensor rank 0 is the
/// one that Miles writes.
void put_last_stage_first(ShardGroup& group) {
  std::vector<std::pair<size_t, size_t>> order;  // columns that it lacks, place by rank
  size_t most = 0;
  for (const TrainShard* shard : group.shards) most = std::max(most, filled_columns(*shard));
  for (size_t i = 0; i < group.shards.size(); ++i) {
    order.emplace_back(most - filled_columns(*group.shards[i]), i);
  }
  std::ranges::sort(order);
  ShardGroup sorted;
  sorted.cp_size = group.cp_size;
  for (const auto& [lacks, i] : order) {
    sorted.shards.push_back(group.shards[i]);
    sorted.cp_rank.push_back(group.cp_rank[i]);
  }
  group = std::move(sorted);
}

using Entry = std::pair<const std::vector<int64_t>, ShardGroup>;

/// Two lists of samples of one rollout, of which `other` has some samples of `of`, and not all.
struct Overlap {
  const Entry* of = nullptr;
  const Entry* other = nullptr;
  size_t others = 0;  // that `of` shares samples with
  size_t shared = 0;

  /// The odd one shares samples with more others, or has fewer copies; its neighbour the most.
  auto oddness() const {
    return std::tuple(others, -static_cast<int64_t>(of->second.shards.size()), shared,
                      of->second.shards[0]->rank());
  }
};

/// The oddest of all, if there is any; `holders`: of each sample who lists it, in their order.
std::optional<Overlap> find_overlap(
    const std::map<std::vector<int64_t>, ShardGroup>& by_samples,
    const std::unordered_map<int64_t, std::vector<const Entry*>>& holders) {
  std::optional<Overlap> odd;
  for (const Entry& of : by_samples) {
    std::unordered_map<const Entry*, size_t> shared;
    for (const int64_t index : of.first) {
      for (const Entry* other : holders.at(index)) ++shared[other];
    }
    std::erase_if(shared, [&](const auto& found) { return found.second == of.first.size(); });
    if (shared.empty()) continue;
    const auto less_shared = [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first->first > b.first->first;
    };
    const auto most = std::ranges::max_element(shared, less_shared);
    const Overlap found{&of, most->first, shared.size(), most->second};
    if (!odd || odd->oddness() < found.oddness()) odd = found;
  }
  return odd;
}

/// Refuses two files that list the same samples, not in the same order, naming the odd one: it has
/// fewer copies, or else alone is not sorted, or is of the higher rank. Errors: kCorrupt.
[[noreturn]] void refuse_order(const Entry& a, const Entry& b) {
  const auto oddness = [](const Entry& of) {
    return std::tuple(-static_cast<int64_t>(of.second.shards.size()),
                      !std::ranges::is_sorted(of.first), of.second.shards[0]->rank());
  };
  const bool first = oddness(b) < oddness(a);
  const Entry &odd = first ? a : b, &other = first ? b : a;
  const auto at = std::ranges::mismatch(odd.first, other.first);
  const std::string rank = std::to_string(other.second.shards[0]->rank());
  throw Error(ErrorCode::kCorrupt,
              "sample_indices[" + std::to_string(at.in1 - odd.first.begin()) + "] is " +
                  std::to_string(*at.in1) + ", rank " + rank + " says " + std::to_string(*at.in2) +
                  ": both list the same samples, and not in the same order",
              odd.second.shards[0]->path());
}

/// Ranks hold the same samples in the same order or none in common, and each sample once.
/// Errors: kCorrupt.
void check_indices(const std::vector<TrainShard>& shards,
                   const std::map<std::vector<int64_t>, ShardGroup>& by_samples) {
  for (const TrainShard& shard : shards) {
    std::set<int64_t> seen;
    for (const int64_t index : shard.indices()) {
      if (seen.insert(index).second) continue;
      throw Error(ErrorCode::kCorrupt,
                  "sample " + std::to_string(index) + " is listed twice in one file", shard.path());
    }
  }
  std::map<std::vector<int64_t>, const Entry*> sorted;
  for (const Entry& entry : by_samples) {
    std::vector<int64_t> samples = entry.first;
    std::ranges::sort(samples);
    const auto [at, fresh] = sorted.emplace(std::move(samples), &entry);
    if (!fresh) refuse_order(entry, *at->second);
  }
  std::unordered_map<int64_t, std::vector<const Entry*>> holders;
  bool is_shared = false;
  for (const Entry& entry : by_samples) {
    for (const int64_t index : entry.first) {
      holders[index].push_back(&entry);
      is_shared = is_shared || holders[index].size() > 1;
    }
  }
  const auto odd = is_shared ? find_overlap(by_samples, holders) : std::nullopt;
  if (!odd) return;
  const TrainShard &shard = *odd->of->second.shards[0], &other = *odd->other->second.shards[0];
  const auto first = [&](bool shared) {
    std::set<int64_t> out(odd->of->first.begin(), odd->of->first.end());
    const std::set<int64_t> there(odd->other->first.begin(), odd->other->first.end());
    std::erase_if(out, [&](int64_t index) { return there.contains(index) != shared; });
    return std::to_string(*out.begin());
  };
  throw Error(ErrorCode::kCorrupt,
              "this file lists sample " + first(false) + ", and that of rank " +
                  std::to_string(other.rank()) + " does not, though both list sample " +
                  first(true) + ": one of them has another's samples",
              shard.path());
}

}  // namespace

std::string ranks_text(const std::vector<const TrainShard*>& shards) {
  std::string out;
  std::set<int64_t> seen;  // a copy of a file says its rank again
  for (const TrainShard* shard : shards) {
    if (!seen.insert(shard->rank()).second) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(shard->rank());
  }
  return (seen.size() == 1 ? "rank " : "ranks ") + out;
}

bool fills(const TrainShard& shard, std::string_view column) {
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    if (shard.cell(row, column)) return true;
  }
  return false;
}

std::vector<ShardGroup> group_shards(const std::vector<TrainShard>& shards) {
  std::map<std::vector<int64_t>, ShardGroup> by_samples;
  for (const TrainShard& shard : shards) by_samples[shard.indices()].shards.push_back(&shard);
  check_indices(shards, by_samples);
  std::vector<ShardGroup> groups;
  for (auto& [indices, group] : by_samples) {
    for (const TrainShard* shard : group.shards) check_columns(*shard, *group.shards[0]);
    std::sort(group.shards.begin(), group.shards.end(),
              [](const TrainShard* a, const TrainShard* b) { return a->rank() < b->rank(); });
    find_cut(group);
    for (int64_t rank = 0; rank < group.cp_size; ++rank) {
      if (std::find(group.cp_rank.begin(), group.cp_rank.end(), rank) != group.cp_rank.end()) {
        continue;
      }
      if (const TrainShard* shard = find_misplaced(group)) {
        throw Error(ErrorCode::kCorrupt,
                    "cp_rank is " + std::to_string(*shard->cp_rank()) +
                        ", and the file has the slices of context-parallel rank " +
                        std::to_string(rank) + ", which no file of the same samples says to be",
                    shard->path());
      }
      throw Error(ErrorCode::kIncomplete,
                  "the file of context-parallel rank " + std::to_string(rank) + " is missing",
                  group.shards[0]->path());
    }
    put_last_stage_first(group);
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace rlreplay::foreign

#include "format/foreign/train_batch.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "format/foreign/context_slices.h"
#include "format/foreign/replica_columns.h"
#include "format/foreign/replicas.h"
#include "format/foreign/train_shard.h"
#include "src/base/number_text.h"
#include "src/base/numbers.h"

namespace rlreplay::foreign {
namespace {

constexpr auto& kColumns = kSlicedColumns;

constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kMaxLength = int64_t{1} << 40;  // tokens of a sample

/// The files that hold the same samples: slices of context parallelism and their replicas.
struct Group {
  std::vector<const TrainShard*> shards;  // by rank
  int64_t cp_size = 1;
  std::vector<int64_t> cp_rank;  // of each shard

  size_t rows() const { return shards[0]->indices().size(); }
};

/// The elements of a slice that a rank should hold.
std::array<ResponseRange, 2> slices(const TrainShard& shard, size_t row, int64_t cp_size,
                                    int64_t cp_rank) {
  const int64_t total = shard.length(row, "total_lengths");
  const int64_t response = shard.length(row, "response_lengths");
  const auto corrupt = [&](const char* message) {
    throw Error(ErrorCode::kCorrupt, message, shard.place(row));
  };
  if (response >= total) corrupt("the response is not shorter than the whole sample");
  if (cp_size == 1) return {ResponseRange{0, response}, ResponseRange{response, response}};
  const std::optional<double> padded = shard.scalar(row, "max_seq_lens");
  const double cut = padded.value_or(static_cast<double>(total));
  const bool sound = cut >= static_cast<double>(total) && cut <= static_cast<double>(kMaxLength);
  if (!sound) corrupt("max_seq_lens or total_lengths makes no sense");
  return response_slices(total, response, static_cast<int64_t>(cut), cp_size, cp_rank);
}

/// Whether every recorded column of the shard has the lengths of this place.
bool fits(const TrainShard& shard, int64_t cp_size, int64_t cp_rank) {
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    const auto [head, tail] = slices(shard, row, cp_size, cp_rank);
    const auto wanted = static_cast<size_t>(head.size() + tail.size());
    for (const std::string_view column : kColumns) {
      const std::optional<Numbers> cell = shard.cell(row, column);
      if (cell && cell->size() != wanted) return false;
    }
  }
  return true;
}

/// Ranks count tensor parallelism first, then context parallelism, then the rest.
std::vector<int64_t> places(size_t shards, int64_t cp_size, int64_t tp_size) {
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < shards; ++i) {
    ranks.push_back(static_cast<int64_t>(i) / tp_size % cp_size);
  }
  return ranks;
}

/// Whether files at the same place hold the same slices.
bool replicas_agree(const Group& group, const std::vector<int64_t>& ranks) {
  std::map<int64_t, const TrainShard*> first;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const TrainShard& a = *first.emplace(ranks[i], group.shards[i]).first->second;
    const TrainShard& b = *group.shards[i];
    for (size_t row = 0; &a != &b && row < group.rows(); ++row) {
      for (const std::string_view column : kColumns) {
        const std::optional<Numbers> x = a.cell(row, column);
        const std::optional<Numbers> y = b.cell(row, column);
        for (size_t t = 0; x && y && t < x->size(); ++t) {
          if (!same_value(x->real(t), y->real(t))) return false;
        }
      }
    }
  }
  return true;
}

bool all_fit(const Group& group, int64_t cp_size, const std::vector<int64_t>& ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!fits(*group.shards[i], cp_size, ranks[i])) return false;
  }
  return true;
}

std::string ranks_text(const std::vector<const TrainShard*>& shards) {
  std::string out = shards.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < shards.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(shards[i]->rank());
  }
  return out;
}

/// Finds how the responses of a group are cut.
void find_cut(Group& group) {
  const TrainShard& first = *group.shards[0];
  if (first.cp_size()) {
    group.cp_size = *first.cp_size();
    for (const TrainShard* shard : group.shards) {
      const int64_t rank = shard->cp_rank().value_or(-1);
      const bool sound = shard->cp_size() == first.cp_size() && group.cp_size <= kMaxRanks;
      if (!sound || rank < 0 || rank >= group.cp_size) {
        const bool other = shard->cp_size() != first.cp_size();
        throw Error(ErrorCode::kCorrupt,
                    other ? "cp_size is not that of rank " + std::to_string(first.rank()) +
                                ", of the same samples: one of the two files is wrong"
                          : "cp_rank and cp_size make no sense together",
                    shard->path());
      }
      group.cp_rank.push_back(*shard->cp_rank());
    }
    return;
  }
  group.cp_rank.assign(group.shards.size(), 0);
  if (first.is_whole()) return;
  const auto count = static_cast<int64_t>(group.shards.size());
  bool found = false;
  for (int64_t cp_size = 1; cp_size <= count; ++cp_size) {
    for (int64_t tp_size = 1; tp_size <= count / cp_size; ++tp_size) {
      if (count % (cp_size * tp_size) != 0) continue;
      const std::vector<int64_t> ranks = places(group.shards.size(), cp_size, tp_size);
      if (!all_fit(group, cp_size, ranks)) continue;
      // Several places may have slices of these lengths: the true one's replicas are equal.
      const bool agree = replicas_agree(group, ranks);
      if (!found || agree) {
        group.cp_size = cp_size;
        group.cp_rank = ranks;
      }
      found = true;
      if (agree) return;
    }
  }
  if (found) return;
  throw Error(ErrorCode::kIncomplete,
              "the slices of the responses do not add up over the files of " +
                  ranks_text(group.shards) + ": another rank's file is missing",
              first.path());
}

size_t cells_of(const TrainShard& shard) {
  size_t out = 0;
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    for (const std::string_view column : kColumns) out += shard.cell(row, column) ? 1 : 0;
  }
  return out;
}

/// Where copies contradict each other the first one is the step's: the loss is computed on the last
/// stage of a pipeline, which alone holds what it is computed from, and there tensor rank 0 is the
/// one that Miles writes.
void put_last_stage_first(Group& group) {
  std::vector<std::pair<size_t, size_t>> order;  // cells that it lacks, place by rank
  size_t most = 0;
  for (const TrainShard* shard : group.shards) most = std::max(most, cells_of(*shard));
  for (size_t i = 0; i < group.shards.size(); ++i) {
    order.emplace_back(most - cells_of(*group.shards[i]), i);
  }
  std::ranges::sort(order);
  Group sorted;
  sorted.cp_size = group.cp_size;
  for (const auto& [lacks, i] : order) {
    sorted.shards.push_back(group.shards[i]);
    sorted.cp_rank.push_back(group.cp_rank[i]);
  }
  group = std::move(sorted);
}

using Entry = std::pair<const std::vector<int64_t>, Group>;

/// Of two files that share samples the one that lists others too.
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
    const std::map<std::vector<int64_t>, Group>& by_samples,
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

/// Ranks hold the same samples or none in common, and each sample once. Errors: kCorrupt.
void check_indices(const std::vector<TrainShard>& shards,
                   const std::map<std::vector<int64_t>, Group>& by_samples) {
  for (const TrainShard& shard : shards) {
    std::set<int64_t> seen;
    for (const int64_t index : shard.indices()) {
      if (seen.insert(index).second) continue;
      throw Error(ErrorCode::kCorrupt,
                  "sample " + std::to_string(index) + " is listed twice in one file", shard.path());
    }
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

std::vector<Group> make_groups(const std::vector<TrainShard>& shards) {
  std::map<std::vector<int64_t>, Group> by_samples;
  for (const TrainShard& shard : shards) by_samples[shard.indices()].shards.push_back(&shard);
  check_indices(shards, by_samples);
  std::vector<Group> groups;
  for (auto& [indices, group] : by_samples) {
    for (const TrainShard* shard : group.shards) check_columns(*shard, *group.shards[0]);
    std::sort(group.shards.begin(), group.shards.end(),
              [](const TrainShard* a, const TrainShard* b) { return a->rank() < b->rank(); });
    find_cut(group);
    for (int64_t rank = 0; rank < group.cp_size; ++rank) {
      if (std::find(group.cp_rank.begin(), group.cp_rank.end(), rank) != group.cp_rank.end()) {
        continue;
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

/// Puts groups together, sample by sample in the order of their indices.
class Assembler {
 public:
  TrainBatch run(const std::vector<TrainShard>& shards) {
    batch_.rollout_id = shards[0].rollout_id();
    for (const TrainShard& shard : shards) {
      if (shard.rollout_id() != batch_.rollout_id) {
        throw Error(ErrorCode::kCorrupt, "the files belong to different rollouts", shard.path());
      }
    }
    const std::vector<Group> groups = make_groups(shards);
    for (const std::string_view name : kColumns) batch_.columns.emplace_back(std::string(name));
    add_samples(groups);
    // A column that no sample has was not recorded.
    std::erase_if(batch_.columns, [](const FloatColumn& c) { return c.offsets().back() == 0; });
    for (const TrainShard& shard : shards) {
      const auto raw = shard.batch_column("raw_reward");
      for (size_t i = 0; raw && i < raw->size(); ++i) batch_.raw_reward.push_back(raw->real(i));
      if (raw) break;
    }
    describe(groups);
    for (const Group& group : groups) check_replicas(group);
    check_copies(groups);
    return std::move(batch_);
  }

 private:
  void describe(const std::vector<Group>& groups) {
    batch_.shards = static_cast<int64_t>(groups.size());
    batch_.cp_size = groups[0].cp_size;
    batch_.replicas = static_cast<int64_t>(groups[0].shards.size()) / batch_.cp_size;
  }

  /// What the ranks hold whole.
  void check_replicas(const Group& group) {
    std::ranges::move(missing_columns(group.shards), std::back_inserter(batch_.findings));
    for (size_t i = 1; i < group.shards.size(); ++i) {
      const bool same_slice = group.cp_rank[i] == group.cp_rank[0];
      std::ranges::move(compare_replicas(*group.shards[i], *group.shards[0], same_slice),
                        std::back_inserter(batch_.findings));
    }
  }

  /// Every sample is held by as many ranks as the others: where one has fewer, a file is missing.
  void check_copies(const std::vector<Group>& groups) {
    const Group* most = &groups[0];
    for (const Group& group : groups) {
      if (group.shards.size() > most->shards.size()) most = &group;
    }
    for (const Group& group : groups) {
      if (group.rows() == 0 || group.shards.size() == most->shards.size()) continue;
      where_ = group.shards[0]->path();
      report("replica-missing", "the samples of " + ranks_text(group.shards) +
                                    " have fewer copies than those of " + ranks_text(most->shards) +
                                    ": the file of another rank is "
                                    "missing" +
                                    gap_text(groups));
    }
  }

  /// The first number that no rank below the last one has.
  static std::string gap_text(const std::vector<Group>& groups) {
    std::set<int64_t> there;
    for (const Group& group : groups) {
      for (const TrainShard* shard : group.shards) there.insert(shard->rank());
    }
    for (int64_t rank = 0; rank < *there.rbegin(); ++rank) {
      if (!there.contains(rank)) return ", that of rank " + std::to_string(rank);
    }
    return "";
  }

  void add_samples(const std::vector<Group>& groups) {
    std::map<int64_t, std::pair<const Group*, size_t>> order;
    for (const Group& group : groups) {
      for (size_t row = 0; row < group.rows(); ++row) {
        const int64_t index = group.shards[0]->indices()[row];
        if (order.emplace(index, std::pair(&group, row)).second) continue;
        throw Error(ErrorCode::kCorrupt, "sample " + std::to_string(index) + " lies in two shards",
                    group.shards[0]->path());
      }
    }
    for (const auto& [index, place] : order) {
      file_ = place.first->shards[0]->path();
      where_ = "sample " + std::to_string(index);
      add_sample(*place.first, place.second);
    }
  }

  void report(const char* code, const std::string& message) {
    batch_.findings.push_back({code, message, where_});
  }

  /// Of one file.
  void report(const char* code, const std::string& message, const TrainShard& shard) {
    batch_.findings.push_back({code, message, shard.path() + ": " + where_});
  }

  [[noreturn]] void corrupt(const std::string& message) const {
    throw Error(ErrorCode::kCorrupt, message, file_ + ": " + where_);
  }

  void add_sample(const Group& group, size_t row) {
    const TrainShard& first = *group.shards[0];
    batch_.sample_index.push_back(first.indices()[row]);
    const int64_t response = first.length(row, "response_lengths");
    batch_.response_lengths.push_back(response);
    add_tokens(group, row);
    if (response > first.length(row, "total_lengths")) {
      corrupt("the response is longer than the whole sample");
    }
    add_mask(group, row, static_cast<size_t>(response));
    const std::optional<double> reward = first.scalar(row, "rewards");
    if (!reward) corrupt("there is no reward");
    batch_.rewards.push_back(*reward);
    batch_.trajectory.push_back(first.whole_number(row, "rollout_ids"));
    batch_.trajectory_tokens.push_back(first.token_count(row, "rollout_mask_sums"));
    for (FloatColumn& column : batch_.columns) add_cell(group, row, column);
  }

  void add_tokens(const Group& group, size_t row) {
    const std::optional<Numbers> ids = group.shards[0]->cell(row, "tokens");
    if (!ids || !ids->is_integer()) corrupt("tokens are missing or no integers");
    const auto total = static_cast<size_t>(group.shards[0]->length(row, "total_lengths"));
    if (ids->size() < total) corrupt("there are fewer tokens than total_lengths says");
    for (size_t i = total; i < ids->size(); ++i) {
      if (ids->integer(i) != 0) corrupt("there are more tokens than total_lengths says");
    }
    if (ids->size() > total) {
      report("padding-removed", std::to_string(ids->size() - total) + " zeros behind the tokens");
    }
    for (size_t i = 0; i < total; ++i) {
      const int64_t id = ids->integer(i);
      if (id < 0 || id > INT32_MAX) corrupt("token " + std::to_string(id) + " is no token id");
      batch_.tokens.push_back(static_cast<int32_t>(id));
    }
    batch_.offsets.push_back(batch_.tokens.size());
  }

  /// Of one file of several.
  [[noreturn]] void corrupt(const std::string& message, const TrainShard& shard) const {
    throw Error(ErrorCode::kCorrupt, message, shard.path() + ": " + where_);
  }

  void add_mask(const Group& group, size_t row, size_t response) {
    const std::optional<Numbers> mask = group.shards[0]->cell(row, "loss_masks");
    if (mask && mask->size() != response)
      corrupt("loss_masks has another length than the response");
    for (size_t i = 0; mask && i < response; ++i) {
      batch_.loss_mask.push_back(mask->real(i) != 0 ? 1 : 0);
    }
    batch_.mask_offsets.push_back(batch_.loss_mask.size());
  }

  /// Joins the slices of one column and compares replicas.
  void add_cell(const Group& group, size_t row, FloatColumn& column) {
    const auto response = static_cast<size_t>(batch_.response_lengths.back());
    std::vector<double> values(response, 0);
    std::vector<const TrainShard*> owner(static_cast<size_t>(group.cp_size), nullptr);
    for (size_t i = 0; i < group.shards.size(); ++i) {
      const TrainShard& shard = *group.shards[i];
      const std::optional<Numbers> cell = shard.cell(row, column.name());
      if (!cell) continue;  // a stage of a pipeline that does not compute it
      const auto [head, tail] = slices(shard, row, group.cp_size, group.cp_rank[i]);
      if (cell->size() != static_cast<size_t>(head.size() + tail.size())) {
        if (!shard.is_whole()) {
          corrupt(column.name() + " does not have the length of its slice", shard);
        }
        report("partial-column", column.name() + " holds only a slice of the response", shard);
        return column.add_row({});
      }
      const TrainShard*& known = owner[static_cast<size_t>(group.cp_rank[i])];
      const auto differs = place(*cell, head, tail, known != nullptr, values);
      if (known == nullptr) known = &shard;
      if (!differs) continue;
      batch_.findings.push_back(replica_problem(
          shard, *known, column.name(),
          {where_ + ", position " + std::to_string(differs->at) + " of the response",
           shortest_of(differs->found), shortest_of(values[differs->at])},
          differs->count > 1 ? hash_text(*cell) : ""));
    }
    const auto missing = std::count(owner.begin(), owner.end(), nullptr);
    if (missing == group.cp_size) return column.add_row({});
    for (size_t i = 0; missing != 0 && i < group.shards.size(); ++i) {
      if (owner[static_cast<size_t>(group.cp_rank[i])] != nullptr) continue;
      corrupt(column.name() + " is missing on a context-parallel rank", *group.shards[i]);
    }
    column.add_row(values);
  }

  struct Difference {
    size_t at = 0;  // in the response
    double found = 0;
    size_t count = 0;  // of places that differ; the first one is named
  };

  /// Writes a slice to its positions, or compares it with what is there.
  static std::optional<Difference> place(const Numbers& cell, ResponseRange head,
                                         ResponseRange tail, bool compare,
                                         std::vector<double>& values) {
    std::optional<Difference> first;
    size_t i = 0;
    for (const ResponseRange range : {head, tail}) {
      for (int64_t t = range.begin; t < range.end; ++t, ++i) {
        const auto at = static_cast<size_t>(t);
        if (!compare) values[at] = cell.real(i);
        if (same_value(values[at], cell.real(i))) continue;
        if (!first) first = Difference{at, cell.real(i)};
        ++first->count;
      }
    }
    return first;
  }

  TrainBatch batch_;
  std::string file_, where_;
};

}  // namespace

const FloatColumn* TrainBatch::column(std::string_view name) const {
  for (const FloatColumn& column : columns) {
    if (column.name() == name) return &column;
  }
  return nullptr;
}

TrainBatch assemble_train(std::span<const TorchFile* const> files) {
  if (files.empty()) throw Error(ErrorCode::kUsage, "there are no train dumps to put together");
  std::vector<TrainShard> shards;
  shards.reserve(files.size());
  for (const TorchFile* file : files) shards.emplace_back(*file);
  return Assembler().run(shards);
}

}  // namespace rlreplay::foreign

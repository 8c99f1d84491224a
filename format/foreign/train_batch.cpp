#include "format/foreign/train_batch.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "format/foreign/replica_columns.h"
#include "format/foreign/replicas.h"
#include "format/foreign/shard_group.h"
#include "format/foreign/train_columns.h"
#include "src/base/found_text.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::foreign {
namespace {

/// Puts groups together, sample by sample in the order of their indices.
class Assembler {
 public:
  TrainBatch run(const std::vector<TrainShard>& shards) {
    batch_.rollout_id = shards[0].rollout_id();
    for (const TrainShard& shard : shards) {
      if (shard.rollout_id() != batch_.rollout_id) {
        throw Error(ErrorCode::kCorrupt,
                    "the files belong to different rollouts, " + std::to_string(batch_.rollout_id) +
                        " and " + std::to_string(shard.rollout_id()),
                    shard.path());
      }
    }
    const std::vector<ShardGroup> groups = group_shards(shards);
    for (const TrainColumn& column : kTrainColumns) {
      if (column.is_cut()) batch_.columns.emplace_back(std::string(column.name));
    }
    add_samples(groups);
    // A column that no sample has was not recorded.
    std::erase_if(batch_.columns, [](const FloatColumn& c) { return c.offsets().back() == 0; });
    describe(groups);
    check_presence(groups);
    for (const ShardGroup& group : groups) check_replicas(group);
    check_copies(groups);
    return std::move(batch_);
  }

 private:
  /// Each file of a group has what its others have, and each group what the others have.
  void check_presence(const std::vector<ShardGroup>& groups) {
    const auto check = [&](const std::vector<const TrainShard*>& shards, const char* of) {
      std::ranges::move(missing_columns(shards, of), std::back_inserter(batch_.findings));
    };
    std::vector<const TrainShard*> firsts;
    for (const ShardGroup& group : groups) {
      check(group.shards, "of the same samples");
      if (group.rows() > 0) firsts.push_back(group.shards[0]);
    }
    check(firsts, "of the same rollout");
  }

  void describe(const std::vector<ShardGroup>& groups) {
    batch_.shards = static_cast<int64_t>(groups.size());
    batch_.cp_size = groups[0].cp_size;
    batch_.replicas = static_cast<int64_t>(groups[0].shards.size()) / batch_.cp_size;
  }

  /// Compares with the group's first file what the other ranks hold of the same samples as copies.
  void check_replicas(const ShardGroup& group) {
    for (size_t i = 1; i < group.shards.size(); ++i) {
      const bool same_slice = group.cp_rank[i] == group.cp_rank[0];
      std::ranges::move(compare_replicas(*group.shards[i], *group.shards[0], same_slice),
                        std::back_inserter(batch_.findings));
    }
  }

  /// Every sample is held by as many ranks as the others: where one has fewer, a file is missing.
  void check_copies(const std::vector<ShardGroup>& groups) {
    const ShardGroup* most = &groups[0];
    for (const ShardGroup& group : groups) {
      if (group.shards.size() > most->shards.size()) most = &group;
    }
    for (const ShardGroup& group : groups) {
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
  static std::string gap_text(const std::vector<ShardGroup>& groups) {
    std::set<int64_t> there;
    for (const ShardGroup& group : groups) {
      for (const TrainShard* shard : group.shards) there.insert(shard->rank());
    }
    for (int64_t rank = 0; rank < *there.rbegin(); ++rank) {
      if (!there.contains(rank)) return ", that of rank " + std::to_string(rank);
    }
    return "";
  }

  void add_samples(const std::vector<ShardGroup>& groups) {
    std::map<int64_t, std::pair<const ShardGroup*, size_t>> order;
    for (const ShardGroup& group : groups) {
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

  /// Reports what one of several files says, by its path.
  void report(const char* code, const std::string& message, const TrainShard& shard) {
    batch_.findings.push_back({code, message, shard.path() + ": " + where_});
  }

  [[noreturn]] void corrupt(const std::string& message) const {
    throw Error(ErrorCode::kCorrupt, message, file_ + ": " + where_);
  }

  void add_sample(const ShardGroup& group, size_t row) {
    const TrainShard& first = *group.shards[0];
    batch_.sample_index.push_back(first.indices()[row]);
    const int64_t response = first.length(row, "response_lengths");
    batch_.response_lengths.push_back(response);
    add_tokens(group, row);
    if (response > first.length(row, "total_lengths")) {
      corrupt(found_text("the response is longer than the whole sample", response,
                         first.length(row, "total_lengths")));
    }
    add_mask(group, row, static_cast<size_t>(response));
    const std::optional<double> reward = first.scalar(row, "rewards");
    if (!reward) corrupt("there is no reward");
    batch_.rewards.push_back(*reward);
    batch_.trajectory.push_back(first.whole_number(row, "rollout_ids"));
    batch_.trajectory_tokens.push_back(first.token_count(row, "rollout_mask_sums"));
    for (FloatColumn& column : batch_.columns) add_cell(group, row, column);
  }

  void add_tokens(const ShardGroup& group, size_t row) {
    const std::optional<Numbers> ids = group.shards[0]->cell(row, "tokens");
    if (!ids || !ids->is_integer()) corrupt("tokens are missing or no integers");
    const auto total = static_cast<size_t>(group.shards[0]->length(row, "total_lengths"));
    if (ids->size() < total) {
      corrupt(found_text("there are fewer tokens than total_lengths says", ids->size(), total));
    }
    for (size_t i = total; i < ids->size(); ++i) {
      if (ids->integer(i) == 0) continue;
      corrupt(found_text("there are more tokens than total_lengths says", i + 1, total));
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

  /// Refuses the batch for what one of several files says, by its path.
  [[noreturn]] void corrupt(const std::string& message, const TrainShard& shard) const {
    throw Error(ErrorCode::kCorrupt, message, shard.path() + ": " + where_);
  }

  void add_mask(const ShardGroup& group, size_t row, size_t response) {
    const std::optional<Numbers> mask = group.shards[0]->cell(row, "loss_masks");
    if (mask && mask->size() != response) {
      corrupt("loss_masks has " + std::to_string(mask->size()) + " values, and the response " +
              std::to_string(response) + " tokens");
    }
    for (size_t i = 0; mask && i < response; ++i) {
      batch_.loss_mask.push_back(mask->real(i) != 0 ? 1 : 0);
    }
    batch_.mask_offsets.push_back(batch_.loss_mask.size());
  }

  /// Joins the slices of one column and compares replicas.
  void add_cell(const ShardGroup& group, size_t row, FloatColumn& column) {
    const auto response = static_cast<size_t>(batch_.response_lengths.back());
    std::vector<double> values(response, 0);
    std::vector<const TrainShard*> owner(static_cast<size_t>(group.cp_size), nullptr);
    std::vector<size_t> without;  // shards that have the column, and nothing of this sample
    for (size_t i = 0; i < group.shards.size(); ++i) {
      const TrainShard& shard = *group.shards[i];
      const std::optional<Numbers> cell = shard.cell(row, column.name());
      if (!cell) {
        if (has_filled(shard, column.name())) without.push_back(i);
        continue;  // otherwise a stage of a pipeline that does not compute it
      }
      const auto [head, tail] = slices(shard, row, group.cp_size, group.cp_rank[i]);
      if (cell->size() != static_cast<size_t>(head.size() + tail.size())) {
        if (!shard.is_whole()) {
          corrupt(other_length(column.name(), cell->size(), group.cp_size,
                               batch_.response_lengths.back()),
                  shard);
        }
        report_part(shard, row, column.name(), cell->size());
        return column.add_row({});
      }
      const TrainShard*& known = owner[static_cast<size_t>(group.cp_rank[i])];
      const auto differs = place(*cell, head, tail, known != nullptr, values);
      if (known == nullptr) known = &shard;
      if (!differs) continue;
      batch_.findings.push_back(replica_problem(
          shard, *known, column.name(),
          {where_ + ", position " + std::to_string(differs->at) + " of the response",
           shortest_of(differs->found), shortest_of(values[differs->at])}));
    }
    for (const size_t i : without) {
      const TrainShard* known = owner[static_cast<size_t>(group.cp_rank[i])];
      if (known != nullptr) report_absent(*group.shards[i], *known, row, column.name());
    }
    const auto missing = std::count(owner.begin(), owner.end(), nullptr);
    if (missing == group.cp_size) return column.add_row({});
    for (size_t i = 0; missing != 0 && i < group.shards.size(); ++i) {
      if (owner[static_cast<size_t>(group.cp_rank[i])] != nullptr) continue;
      corrupt(column.name() + " is missing on a context-parallel rank", *group.shards[i]);
    }
    column.add_row(values);
  }

  /// Of a file of all ranks, which may have slices of what trainers do not put together.
  void report_part(const TrainShard& shard, size_t row, const std::string& column, size_t size) {
    const TrainColumn* known = train_column(column);
    const bool may_be_cut = known != nullptr && known->holds == Holds::kAnySlice;
    if (may_be_cut && fits_some_slice(shard, row, size)) {
      return report("partial-column", column + " holds only a slice of the response", shard);
    }
    report(may_be_cut ? "length-mismatch" : "partial-column",
           other_length(column, size, 1, batch_.response_lengths.back()) + ": it is left out",
           shard);
  }

  /// `fills`, looked up once.
  bool has_filled(const TrainShard& shard, const std::string& column) {
    const auto [at, fresh] = filled_.emplace(std::pair(&shard, column), false);
    if (fresh) at->second = fills(shard, column);
    return at->second;
  }

  void report_absent(const TrainShard& shard, const TrainShard& known, size_t row,
                     const std::string& column) {
    const auto said = [&](const TrainShard& of) {
      return in_words(of.tree(), of.find(row, column).value_or(Value()));
    };
    batch_.findings.push_back(
        replica_problem(shard, known, column, {where_, said(shard), said(known)}));
  }

  struct Difference {
    size_t at = 0;  // in the response; the first place that differs
    double found = 0;
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
        if (same_value(values[at], cell.real(i)) || first) continue;
        first = Difference{at, cell.real(i)};
      }
    }
    return first;
  }

  TrainBatch batch_;
  std::map<std::pair<const TrainShard*, std::string>, bool> filled_;
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

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "format/foreign/shard_group.h"
#include "format/foreign/train_columns.h"
#include "src/base/found_text.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::foreign {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kMaxLength = int64_t{1} << 40;  // tokens of a sample

/// Cells that do not have the lengths of their places.
struct Misfits {
  size_t count = 0, cells = 0;        // of all files
  const TrainShard* shard = nullptr;  // of the first; all are its where `one_file` says so
  std::string_view column;
  size_t row = 0;
  size_t cells_of_file = 0;  // of that file
  bool one_file = true;

  /// Whether the cut is right and cells are damaged: a wrong one leaves most of a file unfit.
  bool are_few() const { return count * 20 <= cells || (one_file && count * 2 < cells_of_file); }

  /// Whether the other files fit.
  bool are_of_one_of_several() const { return one_file && cells_of_file < cells; }
};

/// Adds the recorded cells of a shard at its place; stops at the first misfit where `only_first`.
void add_misfits(const TrainShard& shard, int64_t cp_size, int64_t cp_rank, bool only_first,
                 Misfits& out) {
  size_t cells = 0;
  for (size_t row = 0; row < shard.indices().size(); ++row) {
    const auto [head, tail] = slices(shard, row, cp_size, cp_rank);
    const auto wanted = static_cast<size_t>(head.size() + tail.size());
    for (const TrainColumn& column : kTrainColumns) {
      const auto cell = column.is_cut() ? shard.cell(row, column.name) : std::nullopt;
      cells += cell ? 1 : 0;
      if (!cell || cell->size() == wanted) continue;
      if (out.count++ == 0)
        std::tie(out.shard, out.column, out.row) = std::tuple(&shard, column.name, row);
      if (only_first) return;
      out.one_file = out.one_file && out.shard == &shard;
    }
  }
  out.cells += cells;
  if (out.shard == &shard) out.cells_of_file = cells;
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
bool replicas_agree(const ShardGroup& group, const std::vector<int64_t>& ranks) {
  std::map<int64_t, const TrainShard*> first;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const TrainShard& a = *first.emplace(ranks[i], group.shards[i]).first->second;
    const TrainShard& b = *group.shards[i];
    for (size_t row = 0; &a != &b && row < group.rows(); ++row) {
      for (const TrainColumn& column : kTrainColumns) {
        if (!column.is_cut()) continue;
        const std::optional<Numbers> x = a.cell(row, column.name);
        const std::optional<Numbers> y = b.cell(row, column.name);
        for (size_t t = 0; x && y && t < x->size(); ++t) {
          if (!same_value(x->real(t), y->real(t))) return false;
        }
      }
    }
  }
  return true;
}

bool all_fit(const ShardGroup& group, int64_t cp_size, const std::vector<int64_t>& ranks) {
  Misfits found;
  for (size_t i = 0; i < ranks.size() && found.count == 0; ++i) {
    add_misfits(*group.shards[i], cp_size, ranks[i], /*only_first=*/true, found);
  }
  return found.count == 0;
}

struct Cut {
  int64_t cp_size = 1;
  std::vector<int64_t> cp_rank;  // of each shard
};

/// The cuts that so many files allow.
std::vector<Cut> possible_cuts(size_t shards) {
  const auto count = static_cast<int64_t>(shards);
  std::vector<Cut> out;
  for (int64_t cp_size = 1; cp_size <= count; ++cp_size) {
    for (int64_t tp_size = 1; tp_size <= count / cp_size; ++tp_size) {
      if (count % (cp_size * tp_size) == 0)
        out.push_back({cp_size, places(shards, cp_size, tp_size)});
    }
  }
  return out;
}

bool fits_a_place(const TrainShard& shard, int64_t cp_size) {
  for (int64_t rank = 0; rank < cp_size; ++rank) {
    Misfits found;
    add_misfits(shard, cp_size, rank, /*only_first=*/true, found);
    if (found.count == 0) return true;
  }
  return false;
}

/// Of a group that no cut fits: cells that are damaged, or a file that is missing.
[[noreturn]] void refuse_cut(const ShardGroup& group, const std::vector<Cut>& cuts) {
  std::optional<Misfits> fewest;
  int64_t cp_size = 1;  // of that cut
  for (const Cut& cut : cuts) {
    Misfits found;
    for (size_t i = 0; i < group.shards.size(); ++i) {
      add_misfits(*group.shards[i], cut.cp_size, cut.cp_rank[i], /*only_first=*/false, found);
    }
    if (fewest && found.count >= fewest->count) continue;
    fewest = found;
    cp_size = cut.cp_size;
  }
  const bool is_damaged =
      fewest && fewest->are_of_one_of_several() && !fits_a_place(*fewest->shard, cp_size);
  if (fewest && (is_damaged || fewest->are_few())) {
    const TrainShard& shard = *fewest->shard;
    throw Error(ErrorCode::kCorrupt,
                other_length(fewest->column, shard.cell(fewest->row, fewest->column)->size(),
                             cp_size, shard.length(fewest->row, "response_lengths")),
                shard.path() + ": sample " + std::to_string(shard.indices()[fewest->row]));
  }
  throw Error(ErrorCode::kIncomplete,
              "the slices of the responses do not add up over the files of " +
                  ranks_text(group.shards) + ": another rank's file is missing",
              group.shards[0]->path());
}

std::string text_of(std::optional<int64_t> number) {
  return number ? std::to_string(*number) : "none";
}

}  // namespace

std::string other_length(std::string_view column, size_t found, int64_t cp_size, int64_t response) {
  if (cp_size > 1) return std::string(column) + " does not have the length of its slice";
  return std::string(column) + " has " + std::to_string(found) + " entries, " +
         std::to_string(response) + " are expected, one of each token of the response";
}

std::array<ResponseRange, 2> slices(const TrainShard& shard, size_t row, int64_t cp_size,
                                    int64_t cp_rank) {
  const int64_t total = shard.length(row, "total_lengths");
  const int64_t response = shard.length(row, "response_lengths");
  const auto corrupt = [&](const std::string& message) {
    throw Error(ErrorCode::kCorrupt, message, shard.place(row));
  };
  if (response >= total) {
    corrupt("the response is not shorter than the whole sample: " + std::to_string(response) +
            " of " + std::to_string(total) + " tokens");
  }
  if (cp_size == 1) return {ResponseRange{0, response}, ResponseRange{response, response}};
  const std::optional<double> padded = shard.scalar(row, "max_seq_lens");
  const double cut = padded.value_or(static_cast<double>(total));
  const bool sound = cut >= static_cast<double>(total) && cut <= static_cast<double>(kMaxLength);
  if (!sound) {
    corrupt(found_text("max_seq_lens or total_lengths makes no sense", shortest(cut),
                       "at least total_lengths, " + std::to_string(total)));
  }
  return response_slices(total, response, static_cast<int64_t>(cut), cp_size, cp_rank);
}

bool fits_some_slice(const TrainShard& shard, size_t row, size_t size) {
  constexpr int64_t kMostOfSlices = 64;  // some 2,000 cuts a row; nobody cuts finer
  for (int64_t cp_size = 2; cp_size <= kMostOfSlices; ++cp_size) {
    for (int64_t rank = 0; rank < cp_size; ++rank) {
      const auto [head, tail] = slices(shard, row, cp_size, rank);
      if (std::cmp_equal(head.size() + tail.size(), size)) return true;
    }
  }
  return false;
}

const TrainShard* find_misplaced(const ShardGroup& group) {
  const bool sound = all_fit(group, group.cp_size, group.cp_rank);
  if (sound && replicas_agree(group, group.cp_rank)) return nullptr;
  for (const Cut& cut : possible_cuts(group.shards.size())) {
    if (cut.cp_size != group.cp_size || !all_fit(group, cut.cp_size, cut.cp_rank)) continue;
    const auto at = std::ranges::mismatch(cut.cp_rank, group.cp_rank).in1 - cut.cp_rank.begin();
    std::vector<int64_t> other = group.cp_rank;
    other[static_cast<size_t>(at)] = cut.cp_rank[static_cast<size_t>(at)];
    if (other == cut.cp_rank) return group.shards[static_cast<size_t>(at)];
  }
  return nullptr;
}

void find_cut(ShardGroup& group) {
  const TrainShard& first = *group.shards[0];
  if (first.cp_size()) {
    group.cp_size = *first.cp_size();
    for (const TrainShard* shard : group.shards) {
      const int64_t rank = shard->cp_rank().value_or(-1);
      const bool sound = shard->cp_size() == first.cp_size() && group.cp_size <= kMaxRanks;
      if (!sound || rank < 0 || rank >= group.cp_size) {
        const bool other = shard->cp_size() != first.cp_size();
        throw Error(
            ErrorCode::kCorrupt,
            other ? "cp_size is not that of rank " + std::to_string(first.rank()) +
                        ", of the same samples: one of the two files is wrong: found " +
                        text_of(shard->cp_size()) + ", rank " + std::to_string(first.rank()) +
                        " says " + text_of(first.cp_size())
                  : found_text("cp_rank and cp_size make no sense together",
                               text_of(shard->cp_rank()) + " of " + text_of(shard->cp_size()),
                               "a rank below cp_size, of at most " + std::to_string(kMaxRanks)),
            shard->path());
      }
      group.cp_rank.push_back(*shard->cp_rank());
    }
    return;
  }
  group.cp_rank.assign(group.shards.size(), 0);
  if (first.is_whole()) return;
  const std::vector<Cut> cuts = possible_cuts(group.shards.size());
  bool found = false;
  for (const Cut& cut : cuts) {
    if (!all_fit(group, cut.cp_size, cut.cp_rank)) continue;
    // Several places may have slices of these lengths: the true one's replicas are equal.
    const bool agree = replicas_agree(group, cut.cp_rank);
    if (!found || agree) {
      group.cp_size = cut.cp_size;
      group.cp_rank = cut.cp_rank;
    }
    found = true;
    if (agree) return;
  }
  if (!found) refuse_cut(group, cuts);
}

}  // namespace rlreplay::foreign

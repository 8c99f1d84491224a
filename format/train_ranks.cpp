#include "format/train_ranks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "format/slice_join.h"
#include "src/base/same_value.h"

namespace rlreplay::format {
namespace {

Hash samples_of(const TrainData& data) {
  std::vector<std::vector<uint64_t>> rows;
  for (size_t s = 0; s < data.size(); ++s) {
    std::vector<uint64_t>& row = rows.emplace_back(1, data.sample_id[s]);
    if (!data.slices) continue;
    for (uint64_t i = data.slices->offsets[s]; i < data.slices->offsets[s + 1]; ++i) {
      row.insert(row.end(), {data.slices->slices[i].first, data.slices->slices[i].length});
    }
  }
  std::ranges::sort(rows);
  Hasher hasher;
  for (const auto& row : rows) hasher.update(std::as_bytes(std::span(row)));
  return hasher.finish();
}

/// The ranks of a step as they are stored, without those that hold events alone.
std::vector<TrainRank> read_ranks(const DumpReader& dump, const std::string& group,
                                  HeldBytes& held) {
  std::vector<TrainRank> ranks;
  for (const UnitRecord* record : dump.find("train", group)) {
    const UnitReader unit = dump.open_unit(*record);
    if (unit.find(group + "/sample_id") == nullptr) continue;
    const uint64_t before = held.bytes();
    TrainData data = read_train_data(dump, unit, group, &held);
    ranks.push_back({std::move(data), record, {}, held.bytes() - before});
  }
  return ranks;
}

/// One slice for each sample: all of it.
TokenSlices whole_slices(const TrainData& data) {
  TokenSlices out;
  for (size_t s = 0; s < data.size(); ++s) {
    const uint64_t length = data.length(s);
    out.slices.push_back({0, length, length});
    out.offsets.push_back(out.slices.size());
    out.lengths.push_back(length);
  }
  return out;
}

/// Numbers that no other rank says differently.
std::optional<NamedColumns> agreed_scalars(const std::vector<TrainRank>& ranks) {
  NamedColumns out;
  std::set<std::string> differing;
  for (const TrainRank& rank : ranks) {
    if (!rank.data.scalars) continue;
    const NamedColumns& own = *rank.data.scalars;
    for (size_t i = 0; i < own.names.size(); ++i) {
      const auto known = out.find(own.names[i]);
      if (known && !same_value(*known, own.values[i])) differing.insert(own.names[i]);
      if (known) continue;
      out.names.push_back(own.names[i]);
      out.values.push_back(own.values[i]);
    }
  }
  for (size_t i = out.names.size(); i-- > 0;) {
    if (!differing.contains(out.names[i])) continue;
    out.names.erase(out.names.begin() + static_cast<ptrdiff_t>(i));
    out.values.erase(out.values.begin() + static_cast<ptrdiff_t>(i));
  }
  return out.names.empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace

void join_slices(std::vector<TrainRank>& ranks, const std::string& group, HeldBytes& held) {
  for (TrainRank& rank : ranks) rank.samples = samples_of(rank.data);
  put_together(ranks, group, held);
}

std::vector<TrainRank> read_train_ranks(const DumpReader& dump, const std::string& group,
                                        HeldBytes& held) {
  std::vector<TrainRank> ranks = read_ranks(dump, group, held);
  join_slices(ranks, group, held);
  return ranks;
}

TrainData join_whole(std::vector<TrainRank> ranks, const std::string& group, HeldBytes& held) {
  if (ranks.empty()) return {};
  std::optional<NamedColumns> scalars = agreed_scalars(ranks);
  if (ranks.size() > 1 || ranks.front().data.slices) {
    for (TrainRank& rank : ranks) {
      if (!rank.data.slices) rank.data.slices = whole_slices(rank.data);
    }
    put_together(ranks, group, held);
  }
  TrainData out = std::move(ranks.front().data);
  out.scalars = std::move(scalars);
  return out;
}

TrainData read_whole_train(const DumpReader& dump, const std::string& group, HeldBytes& held) {
  return join_whole(read_ranks(dump, group, held), group, held);
}

TrainData read_train_rank(const DumpReader& dump, const UnitReader& unit, const std::string& group,
                          HeldBytes& held) {
  TrainData own = read_train_data(dump, unit, group, &held);
  if (!own.slices) return own;
  for (TrainRank& rank : read_train_ranks(dump, group, held)) {
    if (rank.unit->path == unit.record().path) return std::move(rank.data);
  }
  return own;
}

}  // namespace rlreplay::format

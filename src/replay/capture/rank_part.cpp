#include "src/replay/capture/rank_part.h"

#include <algorithm>
#include <span>

#include "src/engine/shard.h"

namespace rlreplay::replay {
namespace {

using engine::Slice;
using kernels::Range;

/// Elements [held.begin, held.end) of a rank's flat storage, which end with rows, of what it owns.
ParameterPart owned_part(const Parameter& local, const Slice& slice, Range held) {
  const int64_t first = std::clamp(held.begin - local.offset, int64_t{0}, local.size());
  const int64_t last = std::clamp(held.end - local.offset, int64_t{0}, local.size());
  if (first >= last || slice.owned.size() <= 0) return {};
  if (local.is_vector()) {
    return {0, 1, slice.column + slice.owned.begin, slice.owned.size()};
  }
  const int64_t begin = std::max(first / local.cols, slice.owned.begin);
  const int64_t end = std::min(last / local.cols, slice.owned.end);
  if (begin >= end) return {};
  return {slice.row + begin, end - begin, slice.column, local.cols};
}

/// Tokens of one sample that the rank holds, as slices of it.
std::vector<Range> held_tokens(int64_t length, const Layout& layout, int cp, int64_t leaf) {
  const engine::ContextRuns runs = engine::context_runs(length, leaf, cp, layout.cp);
  std::vector<Range> out;
  for (const Range& run : {runs.low, runs.high}) {
    if (run.size() > 0) out.push_back(run);
  }
  return out;
}

/// The samples of a step that a rank has, and the tokens of each.
class Cut {
 public:
  Cut(const format::TrainData& whole, const Layout& layout, const RankPlace& place, int64_t leaf)
      : whole_(whole),
        dealt_(engine::dealt_samples(static_cast<int64_t>(whole.size()), place.dp, layout.dp)) {
    for (int64_t s = dealt_.begin; s < dealt_.end; ++s) {
      tokens_.push_back(held_tokens(static_cast<int64_t>(whole.length(static_cast<size_t>(s))),
                                    layout, place.cp, leaf));
    }
  }

  template <class T>
  std::vector<T> of_samples(const std::vector<T>& from) const {
    if (from.empty()) return {};  // a presence that says nothing
    return {from.begin() + dealt_.begin, from.begin() + dealt_.end};
  }

  template <class T>
  std::vector<T> of_tokens(const std::vector<T>& from) const {
    std::vector<T> out;
    if (from.empty()) return out;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const auto begin = from.begin() + static_cast<int64_t>(whole_.offsets[at(i)]);
      for (const Range& run : tokens_[i]) out.insert(out.end(), begin + run.begin, begin + run.end);
    }
    return out;
  }

  void place(format::TrainData& out, bool slices) const {
    out.sample_id = of_samples(whole_.sample_id);
    if (slices) out.slices.emplace();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const uint64_t length = whole_.length(at(i));
      uint64_t stored = 0;
      for (const Range& run : tokens_[i]) {
        const auto count = static_cast<uint64_t>(run.size());
        stored += count;
        if (slices) out.slices->slices.push_back({static_cast<uint64_t>(run.begin), count, length});
      }
      out.offsets.push_back(out.offsets.back() + stored);
      if (!slices) continue;
      out.slices->offsets.push_back(out.slices->slices.size());
      out.slices->lengths.push_back(length);
    }
  }

 private:
  size_t at(size_t i) const { return static_cast<size_t>(dealt_.begin) + i; }

  const format::TrainData& whole_;
  const Range dealt_;
  std::vector<std::vector<Range>> tokens_;  // of each dealt sample
};

}  // namespace

std::vector<format::Dataset> coordinate_datasets(const Layout& layout, int rank,
                                                 const std::string& group) {
  if (layout.ranks() == 1) return {};
  const RankPlace at = place_of(layout, rank);
  const std::pair<int, int> axes[] = {
      {at.dp, layout.dp}, {at.tp, layout.tp}, {at.pp, layout.pp}, {at.cp, layout.cp}, {0, 1}};
  std::vector<uint32_t> numbers;
  for (const auto& [number, of] : axes) {
    numbers.push_back(static_cast<uint32_t>(number));
    numbers.push_back(static_cast<uint32_t>(of));
  }
  std::vector<format::Dataset> out;
  out.push_back(
      format::dataset_of(group + "/coordinates", DType::kU32, {5, 2}, std::move(numbers)));
  return out;
}

RankParts rank_parts(const ModelConfig& config, const Layout& layout, int rank) {
  const ParameterTable whole = make_parameters(config);
  const RankPlace place = place_of(layout, rank);
  RankParts out{std::vector<ParameterPart>(whole.list.size()),
                std::vector<ParameterPart>(whole.list.size())};
  if (place.cp > 0 || (place.dp > 0 && !layout.zero)) return out;  // copies of another's
  const engine::ShardTable shard =
      engine::shard_parameters(config, engine::make_shard(config, layout, place), place);
  const Range all{0, shard.table.elements};
  const Range held = layout.zero ? engine::zero_range(shard.table, place.dp, layout.dp) : all;
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    const Slice& slice = shard.slices[i];
    const auto parameter = static_cast<size_t>(slice.whole);
    if (place.dp == 0) out.weights[parameter] = owned_part(shard.table.list[i], slice, all);
    out.moments[parameter] = owned_part(shard.table.list[i], slice, held);
  }
  return out;
}

format::TrainData rank_part(const format::TrainData& whole, const Layout& layout, int rank,
                            int64_t leaf) {
  if (layout.ranks() == 1) return whole;
  const RankPlace place = place_of(layout, rank);
  const Cut cut(whole, layout, place, leaf);
  format::TrainData out;
  cut.place(out, layout.cp > 1);
  out.scalars = whole.scalars;
  const bool answers = place.pp == layout.pp - 1 && place.tp == 0 && !out.sample_id.empty();
  if (!answers) return out;
  if (whole.loss_mask) {
    out.loss_mask = {cut.of_tokens(whole.loss_mask->values),
                     cut.of_samples(whole.loss_mask->presence)};
  }
  if (whole.rewards) {
    out.rewards = {cut.of_samples(whole.rewards->values), cut.of_samples(whole.rewards->presence)};
  }
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    const auto& column = whole.*field.column;
    if (!column) continue;
    out.*field.column = {cut.of_tokens(column->narrow), cut.of_tokens(column->wide),
                         cut.of_samples(column->presence)};
  }
  return out;
}

}  // namespace rlreplay::replay

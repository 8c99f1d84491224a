#include "src/engine/element_ranks.h"

#include <algorithm>
#include <array>
#include <set>

#include "src/base/error.h"
#include "src/engine/residual_stream.h"
#include "src/engine/shard.h"
#include "src/events/table.h"

namespace rlreplay::engine {
namespace {

bool is_cut(Width width) { return width != Width::kOne && width != Width::kHidden; }

/// Columns of a row that a rank answers for.
kernels::Range owned_columns(Width width, const Shard& shard, const ModelConfig& c) {
  const auto times = [](kernels::Range range, int64_t size) {
    return kernels::Range{range.begin * size, range.end * size};
  };
  switch (width) {
    case Width::kQueries:
      return times(shard.heads, c.head_dim);
    case Width::kHeads:
      return shard.heads;
    case Width::kKeys:
      return times(shard.kv_owned, c.head_dim);
    case Width::kKvHeads:
      return shard.kv_owned;
    case Width::kIntermediate:
      return shard.intermediate;
    case Width::kOne:
    case Width::kHidden:
      break;
  }
  return {0, row_width(width, c)};
}

bool contains(kernels::Range range, int64_t at) { return at >= range.begin && at < range.end; }

/// Whether its stage has the event.
bool has_stage(const Event& event, const Shard& shard) {
  if (event.layer >= 0) return contains(shard.layers, event.layer);
  return event.op == Op::kBatch || event.op == Op::kEmbedding ? shard.first : shard.last;
}

/// Whether what an event has at a token follows from the token before it.
bool is_of_next(const EventSpec& spec) {
  return spec.phase == Phase::kObjective ||
         (spec.phase == Phase::kForward && spec.op == Op::kLogProb);
}

class RowRanks {
 public:
  RowRanks(const DealtStep& step, const EventSpec& spec, const EventNumbers& numbers)
      : step_(step), spec_(spec), numbers_(numbers) {}

  bool says(const RankPlace& place) const {
    const Layout& layout = step_.layout;
    const Shard shard = make_shard(step_.model, layout, place);
    if (!has_stage(numbers_.event, shard)) return false;
    // Which rows of the stream a rank has with sp, its micro-batch tells: any may have this one.
    const bool spread = layout.sp && of_stream(numbers_.event.op);
    if (!is_cut(spec_.width) && place.tp > 0 && !spread) return false;
    if (numbers_.column && is_cut(spec_.width) &&
        !contains(owned_columns(spec_.width, shard, step_.model), numbers_.row->column)) {
      return false;
    }
    return !numbers_.row || has_token(place);
  }

 private:
  bool has_token(const RankPlace& place) const {
    const auto at = std::ranges::find(step_.samples, numbers_.row->sample, &SampleShape::id);
    if (at == step_.samples.end()) return false;
    const kernels::Range dealt =
        dealt_samples(std::ssize(step_.samples), place.dp, step_.layout.dp);
    if (!contains(dealt, at - step_.samples.begin())) return false;
    const ContextRuns runs = context_runs(at->length, step_.leaf, place.cp, step_.layout.cp);
    const int64_t position = numbers_.row->row - (is_of_next(spec_) ? 1 : 0);
    return contains(runs.low, position) || contains(runs.high, position);
  }

  const DealtStep& step_;
  const EventSpec& spec_;
  const EventNumbers& numbers_;
};

/// Elements of all parameters, in their order, that the numbers are.
kernels::Range elements_of(const Parameter& p, const EventNumbers& numbers) {
  if (!numbers.row) return {p.offset, p.offset + p.size()};
  const int64_t row = p.offset + numbers.row->row * p.cols;
  if (!numbers.column) return {row, row + p.cols};
  return {row + numbers.row->column, row + numbers.row->column + 1};
}

/// Whether a rank answers for one of them.
bool answers_for(const DealtStep& step, const RankPlace& place, const ParameterTable& whole,
                 kernels::Range elements) {
  const Layout& layout = step.layout;
  if (place.cp > 0 || (place.dp > 0 && !layout.zero)) return false;
  const ShardTable shard =
      shard_parameters(step.model, make_shard(step.model, layout, place), place);
  const kernels::Range held = layout.zero ? zero_range(shard.table, place.dp, layout.dp)
                                          : kernels::Range{0, shard.table.elements};
  ShardTable part;  // of the parameter alone: the others are many
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    const Parameter& of = whole[shard.slices[i].whole];
    if (of.offset >= elements.end || of.offset + of.size() <= elements.begin) continue;
    part.table.list.push_back(shard.table.list[i]);
    part.slices.push_back(shard.slices[i]);
  }
  bool out = false;
  for_shard_runs(part, whole, held, true, [&](int64_t, int64_t at, int64_t n) {
    out |= at < elements.end && at + n > elements.begin;
  });
  return out;
}

/// Groups through which an input of rows comes to rows.
void add_exchanges(const DealtStep& step, const EventSpec& spec, const Event& event,
                   const ResolvedInput& input, std::set<RankGroup>& to) {
  const EventSpec* from = find_event(input.event);
  if (from == nullptr || input.before || is_parameter(from->kind)) return;
  if (is_cut(from->width) != is_cut(spec.width) && (is_cut(from->width) || step.layout.sp)) {
    to.insert(RankGroup::kTp);
  }
  if (input.reach != Reach::kRow) to.insert(RankGroup::kCp);
  for (int pp = 0; pp < step.layout.pp; ++pp) {
    const Shard shard = make_shard(step.model, step.layout, {.pp = pp});
    if (has_stage(event, shard) != has_stage(input.event, shard)) to.insert(RankGroup::kPp);
  }
}

}  // namespace

std::vector<int> ranks_of(const DealtStep& step, const EventNumbers& numbers) {
  const EventSpec* spec = find_event(numbers.event);
  check(spec != nullptr, "an event is not in the table");
  if (!is_per_token(spec->kind) && !is_parameter(spec->kind)) return {0};
  const ParameterTable whole = make_parameters(step.model);
  const auto p = std::ranges::find(whole.list, numbers.event.tensor, &Parameter::name);
  const RowRanks rows(step, *spec, numbers);
  std::vector<int> out;
  for (int rank = 0; rank < step.layout.ranks(); ++rank) {
    const RankPlace place = place_of(step.layout, rank);
    const bool says =
        is_per_token(spec->kind)
            ? rows.says(place)
            : p != whole.list.end() && answers_for(step, place, whole, elements_of(*p, numbers));
    if (says) out.push_back(rank);
  }
  return out;
}

std::vector<RankGroup> exchanged_before(const DealtStep& step, const Event& event) {
  const EventSpec* spec = find_event(event);
  check(spec != nullptr, "an event is not in the table");
  using enum RankGroup;
  std::set<RankGroup> found;
  if (is_per_token(spec->kind)) {
    for (const ResolvedInput& input : event_inputs(event, step.model)) {
      add_exchanges(step, *spec, event, input, found);
    }
    // Vocabularies are cut: rows of the embedding, and what is known of a row of logits.
    if (event.op == Op::kEmbedding || event.op == Op::kLogProb) found.insert(kTp);
  } else if (event.op == Op::kGradient) {
    found = {kDp, kCp};
  } else if (!is_parameter(spec->kind)) {
    found = {kDp, kTp, kPp, kCp};  // losses, scale and norm are of all samples and parameters
  }
  const Layout& l = step.layout;
  const std::array<std::pair<RankGroup, int>, 4> sizes{
      {{kDp, l.dp}, {kTp, l.tp}, {kPp, l.pp}, {kCp, l.cp}}};
  std::vector<RankGroup> out;
  for (const auto& [group, size] : sizes) {
    if (size > 1 && found.contains(group)) out.push_back(group);
  }
  return out;
}

}  // namespace rlreplay::engine

#include "src/engine/shard.h"

#include <algorithm>

#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/words.h"

namespace rlreplay::engine {
namespace {

using kernels::kAxisSegments;
using kernels::Range;

Range part(int64_t n, int count, int i) { return kernels::segment(n, count, i); }

/// The kv heads whose first query head is one of `heads`.
Range owned_kv(Range heads, int64_t group) {
  return {kernels::ceil_div(heads.begin, group), kernels::ceil_div(heads.end, group)};
}

/// Along which axis tensor parallelism cuts a parameter.
enum class Cut { kNone, kRows, kColumns };

struct Piece {
  Cut cut = Cut::kNone;
  Range held;   // of the cut axis
  Range owned;  // likewise
};

/// The piece of a layer's parameter, by its place in LayerParameters.
Piece layer_piece(const LayerParameters& p, int index, const ModelConfig& c, const Shard& s) {
  const auto scaled = [&](Range heads) {
    return Range{heads.begin * c.head_dim, heads.end * c.head_dim};
  };
  const Range q = scaled(s.heads), kv = scaled(s.kv_heads), owned = scaled(s.kv_owned);
  if (index == p.q) return {Cut::kRows, q, q};
  if (index == p.k || index == p.v) return {Cut::kRows, kv, owned};
  if (index == p.q_bias) return {Cut::kColumns, q, q};
  if (index == p.k_bias || index == p.v_bias) return {Cut::kColumns, kv, owned};
  if (index == p.o) return {Cut::kColumns, q, q};
  if (index == p.gate || index == p.up) return {Cut::kRows, s.intermediate, s.intermediate};
  if (index == p.down) return {Cut::kColumns, s.intermediate, s.intermediate};
  return {};
}

/// Adds a rank's parameters in the order of the whole table, each right behind the one before: the
/// elements so far are where the next one begins.
class TableBuilder {
 public:
  TableBuilder(const ModelConfig& config, const Shard& shard, const RankPlace& place)
      : config_(config), shard_(shard), place_(place), whole_(make_parameters(config)) {}

  ShardTable build() {
    const bool embedding = shard_.first || (shard_.last && config_.tied);
    if (embedding) {
      out_.table.embedding =
          add(whole_.embedding, {Cut::kRows, shard_.vocab, shard_.first ? shard_.vocab : Range{}});
    }
    for (int64_t l = shard_.layers.begin; l < shard_.layers.end; ++l) add_layer(l);
    if (shard_.last) {
      out_.table.final_norm = add(whole_.final_norm, {});
      if (!config_.tied)
        out_.table.head = add(whole_.head, {Cut::kRows, shard_.vocab, shard_.vocab});
    }
    if (config_.tied) out_.table.head = out_.table.embedding;
    return std::move(out_);
  }

 private:
  void add_layer(int64_t layer) {
    const LayerParameters& from = whole_.layers[static_cast<size_t>(layer)];
    LayerParameters to;
    for (const auto field : kLayerParameters) {
      if (from.*field < 0) continue;
      to.*field = add(from.*field, layer_piece(from, from.*field, config_, shard_));
    }
    out_.table.layers.push_back(to);
  }

  int add(int index, const Piece& piece) {
    Parameter p = whole_[index];
    Slice slice{index, 0, 0, {}};
    const bool rows = !p.is_vector();
    if (piece.cut == Cut::kNone) {
      if (place_.tp == 0) slice.owned = {0, rows ? p.rows : p.cols};
    } else {
      (piece.cut == Cut::kRows ? slice.row : slice.column) = piece.held.begin;
      (piece.cut == Cut::kRows ? p.rows : p.cols) = piece.held.size();
      // A matrix that is cut by columns is owned by rows: all of them.
      slice.owned = rows && piece.cut == Cut::kColumns ? Range{0, p.rows}
                                                       : Range{piece.owned.begin - piece.held.begin,
                                                               piece.owned.end - piece.held.begin};
      if (slice.owned.size() <= 0) slice.owned = {};
    }
    p.offset = out_.table.elements;
    out_.table.elements += p.size();
    out_.table.list.push_back(std::move(p));
    out_.slices.push_back(slice);
    return static_cast<int>(out_.table.list.size()) - 1;
  }

  const ModelConfig& config_;
  const Shard& shard_;
  const RankPlace& place_;
  const ParameterTable whole_;
  ShardTable out_;
};

bool divides(int part, int64_t whole) { return whole % part == 0; }

}  // namespace

Shard whole_shard(const ModelConfig& config) { return make_shard(config, {}, {}); }

Shard make_shard(const ModelConfig& c, const Layout& layout, const RankPlace& place) {
  check_layout(c, layout);
  const int64_t segments = kernels::attention_segments(c.heads);
  const int64_t group = c.heads / c.kv_heads;
  Shard out;
  out.layers = part(c.layers, layout.pp, place.pp);
  out.first = place.pp == 0;
  out.last = place.pp == layout.pp - 1;
  out.query_segments = part(segments, layout.tp, place.tp);
  out.axis_segments = part(kAxisSegments, layout.tp, place.tp);
  out.heads = part(c.heads, layout.tp, place.tp);
  out.kv_heads = {out.heads.begin / group, (out.heads.end - 1) / group + 1};
  out.kv_owned = owned_kv(out.heads, group);
  out.intermediate = part(c.intermediate, layout.tp, place.tp);
  out.vocab = part(c.vocab, layout.tp, place.tp);
  out.replicas = c.heads / layout.tp % group != 0;
  return out;
}

std::string refusal_of(const ModelConfig& c, const Layout& layout) {
  const int64_t segments = kernels::attention_segments(c.heads);
  if (!divides(layout.tp, segments)) {
    return "tp must divide " + std::to_string(segments) + ", the segments of " +
           counted(c.heads, "query head");
  }
  if (layout.tp > c.intermediate || layout.tp > c.vocab) {
    return "tp is larger than the intermediate size or the vocabulary";
  }
  if (layout.pp > std::max<int64_t>(1, c.layers))
    return "pp is larger than " + counted(c.layers, "layer");
  return {};
}

std::vector<Layout> fitting_layouts(const ModelConfig& config, int ranks) {
  std::vector<Layout> out;
  for (int dp = 1; dp <= ranks; ++dp) {
    for (int tp = 1; dp * tp <= ranks; ++tp) {
      for (int pp = 1; dp * tp * pp <= ranks; ++pp) {
        const Layout layout{dp, tp, pp, ranks / (dp * tp * pp)};
        if (layout.ranks() == ranks && refusal_of(config, layout).empty()) out.push_back(layout);
      }
    }
  }
  return out;
}

void check_layout(const ModelConfig& config, const Layout& layout) {
  const std::string why = refusal_of(config, layout);
  if (why.empty()) return;
  constexpr size_t kNamed = 24;  // a few lines
  std::vector<std::string> others;
  const std::vector<Layout> fitting = fitting_layouts(config, layout.ranks());
  for (size_t i = 0; i < std::min(kNamed, fitting.size()); ++i) {
    others.push_back(to_string(fitting[i]));
  }
  if (fitting.size() > kNamed) others.push_back("and so on");
  throw Error(ErrorCode::kUnsupported, "this model does not go into " + to_string(layout) + ": " +
                                           why + "; of " + counted(layout.ranks(), "rank") +
                                           " these do: " + joined(others, "; "));
}

ShardTable shard_parameters(const ModelConfig& config, const Shard& shard, const RankPlace& place) {
  return TableBuilder(config, shard, place).build();
}

Range zero_range(const ParameterTable& table, int dp, int size) {
  // The border after i of `size` parts: the first end of a row at or after that share.
  const auto border = [&](int i) {
    const int64_t share = table.elements * i / size;
    for (const Parameter& p : table.list) {
      if (share > p.offset + p.size()) continue;
      const int64_t row = p.is_vector() ? p.size() : p.cols;
      const int64_t into = std::max<int64_t>(0, share - p.offset);
      return p.offset + (row == 0 ? 0 : kernels::ceil_div(into, row) * row);
    }
    return table.elements;
  };
  return {border(dp), dp + 1 == size ? table.elements : border(dp + 1)};
}

Range dealt_samples(int64_t samples, int dp, int size) { return part(samples, size, dp); }

ContextRuns context_runs(int64_t length, int64_t leaf, int cp, int size) {
  const int64_t leaves = kernels::ceil_div(length, leaf);
  const int64_t run = leaf * ((leaves + 2 * size - 1) / (2 * size));
  const auto clipped = [&](int64_t i) {
    const Range out{std::min(length, i * run), std::min(length, (i + 1) * run)};
    return out.size() == 0 ? Range{} : out;
  };
  if (size == 1) return {{0, length}, {}};
  return {clipped(cp), clipped(2 * size - 1 - cp)};
}

}  // namespace rlreplay::engine

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/view.h"
#include "src/base/layout.h"
#include "src/base/parameters.h"

/// Which part of a model and of a sample a rank holds: pure functions of the configuration, the
/// layout and the rank's place.
namespace rlreplay::engine {

/// What a rank holds, in numbers of the whole model. With t ranks each holds T/t segments of every
/// axis that tensor parallelism cuts (docs/numerics.md section 2).
struct Shard {
  kernels::Range layers;
  bool first = true;              // its stage embeds tokens
  bool last = true;               // its stage has the final norm and the head
  kernels::Range heads;           // query heads
  kernels::Range kv_heads;        // those that its query heads use; neighbours may hold one too
  kernels::Range kv_owned;        // those of them whose keys it answers for
  kernels::Range intermediate;    // columns of gate and up
  kernels::Range vocab;           // ids
  kernels::Range query_segments;  // of attention_segments
  kernels::Range axis_segments;   // of kAxisSegments
  bool replicas = false;          // somewhere a kv head is held twice, or its queries are apart

  int64_t layer_count() const { return layers.size(); }
};

/// The shard of a model that is not cut.
[[nodiscard]] Shard whole_shard(const ModelConfig& config);

/// Errors: kUnsupported where the model cannot be cut so, as check_layout.
[[nodiscard]] Shard make_shard(const ModelConfig& config, const Layout& layout,
                               const RankPlace& place);

/// Why a model cannot be cut so; empty where it can.
[[nodiscard]] std::string refusal_of(const ModelConfig& config, const Layout& layout);

/// Errors: kUnsupported, with the layouts of as many ranks that would do.
void check_layout(const ModelConfig& config, const Layout& layout);

/// Every layout of that many ranks (without sp and zero) that fits, ascending by dp, tp, pp, cp.
[[nodiscard]] std::vector<Layout> fitting_layouts(const ModelConfig& config, int ranks);

/// Where a rank's part of a parameter stands in the whole one.
struct Slice {
  int whole = -1;   // index into the whole table
  int64_t row = 0;  // of its first element
  int64_t column = 0;
  kernels::Range owned;  // its rows, of a vector its columns, that no other rank answers for
};

/// A rank's parameters, laid out as ParameterTable says, by names of the whole model. `layers` has
/// the rank's own alone, `embedding`, `final_norm` and `head` are -1 where another stage has them;
/// of a tied model whose stages are apart the first and the last both hold the embedding.
struct ShardTable {
  ParameterTable table;
  std::vector<Slice> slices;  // of each parameter of `table`
};

/// `place` decides which of several ranks that hold the same owns it.
[[nodiscard]] ShardTable shard_parameters(const ModelConfig& config, const Shard& shard,
                                          const RankPlace& place);

/// Calls use(local, whole, count) for runs of elements of a rank's flat storage, inside of `held`,
/// and where they stand in the whole one; with `owned` only for those that this rank answers for.
template <class Use>
void for_shard_runs(const ShardTable& shard, const ParameterTable& whole, kernels::Range held,
                    bool owned, const Use& use);

/// Flat storage [begin, end) of a rank's parameters whose moments data-parallel rank `dp` of `size`
/// holds: whole rows of matrices, whole vectors, as evenly as they go.
[[nodiscard]] kernels::Range zero_range(const ParameterTable& table, int dp, int size);

template <class Use>
void for_shard_runs(const ShardTable& shard, const ParameterTable& whole, kernels::Range held,
                    bool owned, const Use& use) {
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    const Parameter& p = shard.table.list[i];
    const Slice& slice = shard.slices[i];
    const Parameter& of = whole[slice.whole];
    const bool vector = p.is_vector();
    const kernels::Range rows = owned && !vector ? slice.owned : kernels::Range{0, p.rows};
    const kernels::Range columns = owned && vector ? slice.owned : kernels::Range{0, p.cols};
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t local = p.offset + r * p.cols + columns.begin;
      if (local < held.begin || local >= held.end || columns.size() == 0) continue;
      use(local, of.offset + (slice.row + r) * of.cols + slice.column + columns.begin,
          columns.size());
    }
  }
}

/// Samples [begin, end) of a global batch of `samples` that data-parallel rank `dp` of `size`
/// takes; may be none.
[[nodiscard]] kernels::Range dealt_samples(int64_t samples, int dp, int size);

/// Positions of a sample of `length` tokens that a context-parallel rank holds: two runs, either
/// may be empty, each beginning on a border of its leaves.
struct ContextRuns {
  kernels::Range low, high;
};
[[nodiscard]] ContextRuns context_runs(int64_t length, int64_t leaf, int cp, int size);

}  // namespace rlreplay::engine

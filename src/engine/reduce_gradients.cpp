#include "src/engine/reduce_gradients.h"

#include <algorithm>
#include <array>
#include <vector>

#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

std::span<int64_t> elements(const kernels::Matrix<int64_t>& m) {
  return {m.data, static_cast<size_t>(m.rows * m.cols)};
}

/// Sums over tp of a parameter whose parts overlap: each rank puts what it owns into the whole.
void sum_overlapping(Group& tp, const Model& model, int index, kernels::Matrix<int64_t> sum) {
  const Parameter& p = model.parameters()[index];
  const Slice& slice = model.slices()[static_cast<size_t>(index)];
  const ModelConfig& c = model.config();
  const int64_t row = p.is_vector() ? 1 : p.cols;  // elements of one step along the cut axis
  const int64_t held = (p.is_vector() ? slice.column : slice.row) * row;
  std::vector<int64_t> whole(static_cast<size_t>(c.kv_heads * c.head_dim * row));
  const int64_t begin = slice.owned.begin * row, end = slice.owned.end * row;
  std::copy(sum.data + begin, sum.data + end, whole.data() + held + begin);
  tp.sum(whole);
  std::copy_n(whole.data() + held, p.size(), sum.data);
}

/// Tensor-parallel ranks hold all of a norm. Those of queries and keys get the contributions of
/// each rank's heads, the others, with sp, those of each rank's rows.
void sum_over_tp(Group& tp, bool sp, const Model& model, Gradients& gradients) {
  for (size_t i = 0; i < model.parameters().list.size(); ++i) {
    const int index = static_cast<int>(i);
    const Parameter& p = model.parameters().list[i];
    const kernels::Matrix<int64_t> sum = gradients.sum(index);
    if (p.role == Role::kHeadNorm || (p.role == Role::kNorm && sp)) tp.sum(elements(sum));
    if (!model.shard().replicas || p.layer < 0) continue;
    const auto layer = static_cast<size_t>(p.layer - model.shard().layers.begin);
    const LayerParameters& l = model.parameters().layers[layer];
    if (index == l.k || index == l.v || index == l.k_bias || index == l.v_bias) {
      sum_overlapping(tp, model, index, sum);
    }
  }
}

/// The first stage scatters into a tied embedding, the last one has its leaves.
void sum_tied(const Ranks& ranks, const Model& model, Gradients& gradients) {
  const Shard& shard = model.shard();
  if (!model.config().tied || shard.first == shard.last) return;
  const std::span<int64_t> own = elements(gradients.sum(model.parameters().embedding));
  const int other = shard.first ? ranks.layout.pp - 1 : 0;
  std::vector<int64_t> theirs(own.size());
  ranks.pp.send(other, std::as_bytes(own));
  ranks.pp.receive(other, std::as_writable_bytes(std::span(theirs)));
  for (size_t i = 0; i < own.size(); ++i) own[i] = kernels::add_wrapping(own[i], theirs[i]);
}

/// Over dp the part alone whose moments each rank holds: it receives that of every other one.
void sum_dealt(Group& dp, const Model& model, std::span<int64_t> sums) {
  const auto part = [&](int rank) {
    const kernels::Range of = zero_range(model.parameters(), rank, dp.size());
    return sums.subspan(static_cast<size_t>(of.begin), static_cast<size_t>(of.size()));
  };
  for (int rank = 0; rank < dp.size(); ++rank) {
    if (rank != dp.rank()) dp.send(rank, std::as_bytes(part(rank)));
  }
  const std::span<int64_t> own = part(dp.rank());
  std::vector<int64_t> theirs(own.size());
  for (int rank = 0; rank < dp.size(); ++rank) {
    if (rank == dp.rank()) continue;
    dp.receive(rank, std::as_writable_bytes(std::span(theirs)));
    for (size_t i = 0; i < own.size(); ++i) own[i] = kernels::add_wrapping(own[i], theirs[i]);
  }
}

}  // namespace

void reduce_gradients(const Runtime& runtime, const Model& model, Gradients& gradients) {
  if (runtime.ranks == nullptr) return;
  if (Group* cp = runtime.cp()) cp->sum(gradients.all_sums());
  if (Group* tp = runtime.tp()) sum_over_tp(*tp, runtime.ranks->layout.sp, model, gradients);
  sum_tied(*runtime.ranks, model, gradients);
  Group* const dp = runtime.dp();
  if (dp == nullptr) return;
  if (runtime.ranks->layout.zero) {
    sum_dealt(*dp, model, gradients.all_sums());
  } else {
    dp->sum(gradients.all_sums());
  }
}

RefusedByRanks gather_refused(const Runtime& runtime, const Gradients& gradients) {
  const auto refused = gradients.refused();
  std::array<int64_t, 2> counts{refused ? 1 : 0, refused && !refused->finite ? 1 : 0};
  if (runtime.ranks != nullptr) runtime.ranks->world.sum(counts);
  return {counts[0] > 0, counts[1] == 0};
}

}  // namespace rlreplay::engine

#pragma once

#include <cstdint>
#include <span>

#include "kernels/view.h"

/// Causal flash attention with grouped heads over ragged samples (docs/numerics.md section 5).
/// Source: Dao, FlashAttention-2 (2023): the online softmax, lse and delta.
namespace rlreplay::kernels {

inline constexpr int64_t kKeyBlock = 64;    // keys of one online-softmax block, absolute positions
inline constexpr int64_t kKeySplit = 512;   // keys of one split, absolute positions
inline constexpr int64_t kQueryBlock = 64;  // queries of one chain of dK and dV, absolute positions
inline constexpr int64_t kMaxHeadSize = 256;  // one fma chain

/// fl(1 / sqrt(D)) = div(1, sqrt(D)), the factor of every score.
[[nodiscard]] float attention_scale(int64_t head_size);

/// Consecutive queries of one sample against its keys. Query row `queries.begin + i` stands at
/// position `position + i` of the sample and sees the keys 0 .. position + i.
/// Keys and values: row p of `k` and `v`, a cache or the batch itself, is position p of the sample.
struct AttentionSample {
  Range queries;
  int64_t position = 0;
  Heads<const float> k;  // [keys, G, D], keys > position + queries.size() - 1
  Heads<const float> v;
};

/// Which kv head a query head uses: local query head h is global head first_head + h, and uses
/// global kv head (first_head + h) / group; local kv head 0 is global kv head first_head / group.
struct HeadGroups {
  int64_t first_head = 0;
  int64_t group = 1;
  int64_t kv_head(int64_t head) const { return (first_head + head) / group - first_head / group; }
  /// How many kv heads `heads` local query heads use.
  int64_t kv_heads(int64_t heads) const { return heads == 0 ? 0 : kv_head(heads - 1) + 1; }
  /// The local query heads, of `heads`, that use local kv head `kv_head`.
  Range query_heads(int64_t kv_head, int64_t heads) const;
};

/// out = attention(q, k, v), lse = m + log l, for every query row of every sample.
/// Shapes: q, out [T, H, D], D at most kMaxHeadSize; lse [T, H], rows H apart.
/// Order, for one query and head:
/// - score s_j = fl(chain over d from +0 of q_d k_jd) times attention_scale(D).
/// - Keys are cut at absolute positions into blocks of 64 inside splits of 512; keys after the
///   query are skipped.
/// - The first block of a split: m = max of its scores, p_j = exp(s_j - m), l = row(p), o = fma
///   chain from +0 over ascending keys of p_j v_j.
/// - A later block: m' = max(m, its scores), alpha = exp(m - m'), p_j = exp(s_j - m'),
///   l = fma(l, alpha, row(p)), o = o alpha, and o's chain goes on. `row` counts its lanes from the
///   beginning of the block.
/// - Splits are merged left to right, the first one being what the second is merged into:
///   m = max(m1, m2), a_i = exp(m_i - m), l = fma(l1, a1, l2 a2), o = fma(o1, a1, o2 a2).
/// - out = o div(1, l); lse = m + log(l).
/// A row's bits depend on its query and its key prefix only.
struct Attention {
  std::span<const AttentionSample> samples;
  HeadGroups groups;
  Heads<const float> q;
  Heads<float> out;
  float* lse = nullptr;
};

/// delta = the sum over d of dout out, per token and head.
/// Shapes: dout, out [T, H, D]; delta [T, H].
/// Order: `row(D)`.
struct AttentionDelta {
  Heads<const float> dout;
  Heads<const float> out;
  float* delta = nullptr;
};

/// One sample in the backward. `queries` rows stand at positions position.. (position 0 unless the
/// dQ pass of a context-parallel rank asks for a chunk). Owned keys [keys.begin, keys.end) get dk
/// and dv (row dk_row + i takes position keys.begin + i); an empty range asks for dq alone. A key
/// that none of the given queries sees gets +0.
struct AttentionBackwardSample {
  Range queries;         // rows of q, dout, lse, delta
  int64_t position = 0;  // of the first query row
  Heads<const float> k;  // [keys, G, D], row p is position p
  Heads<const float> v;
  Range keys;          // positions whose dk, dv are asked for
  int64_t dk_row = 0;  // row of dk and dv that takes position keys.begin
};

/// dq, dk, dv. p = exp(s - lse) with the scores s of the forward, dP = chain over d from +0 of
/// dout_d v_d, dS = p (dP - delta).
/// Shapes: q, dout, dq [T, H, D]; lse, delta [T, H]; dk, dv [rows, G, D]. dq without data: not
/// asked for.
/// Order: dk (terms dS q), dv (terms p dout) of a key: query heads of the group ascending
/// outermost; inside a head, query blocks of 64 at absolute positions, one fma chain from +0 over
/// ascending queries per block, folded left to right from +0 over all blocks of all heads. dq
/// (terms dS k) of a query: the same over key blocks of 64. dk and dq are multiplied once, at the
/// end, by attention_scale(D).
struct AttentionBackward {
  std::span<const AttentionBackwardSample> samples;
  HeadGroups groups;
  Heads<const float> q;
  Heads<const float> dout;
  const float* lse = nullptr;
  const float* delta = nullptr;
  Heads<float> dq;
  Heads<float> dk;
  Heads<float> dv;
};

/// Errors: kInternal where shapes disagree, ranges leave their tensors, or D is not in
/// 1..kMaxHeadSize. Every kernel set begins with this.
void check_operands(const Attention& op);
void check_operands(const AttentionDelta& op);
void check_operands(const AttentionBackward& op);

}  // namespace rlreplay::kernels

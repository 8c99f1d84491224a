#pragma once

#include <cstdint>
#include <span>

#include "kernels/view.h"

/// Causal flash attention with grouped heads over ragged samples (docs/numerics.md section 5).
namespace rlreplay::kernels {

inline constexpr int64_t kKeyBlock = 64;    // keys of one online-softmax block, absolute positions
inline constexpr int64_t kKeySplit = 512;   // keys of one split, absolute positions
inline constexpr int64_t kQueryBlock = 64;  // queries of one chain of dK and dV, absolute positions

/// Consecutive queries of one sample against its keys. Query row `queries.begin + i` stands at
/// position `position + i` of the sample and sees the keys 0 .. position + i.
/// Keys and values: row p of `k` and `v` is position p of the sample (a cache, or the batch
/// itself).
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
};

/// out = attention(q, k, v), lse = m + log l, for every query row of every sample.
/// Shapes: q, out [T, H, D]; lse [T, H], rows H apart.
/// Order: score = fl(chain(q k) fl(1/sqrt(D))); key blocks of 64 ascending inside splits of 512;
/// denominators by `row`; splits merged left to right; out = o div(1, l).
/// A row's bits depend on its query and its key prefix only.
struct Attention {
  std::span<const AttentionSample> samples;
  HeadGroups groups;
  Heads<const float> q;
  Heads<float> out;
  float* lse = nullptr;
};

/// delta = row(dout out) per token and head. Shapes: dout, out [T, H, D]; delta [T, H].
struct AttentionDelta {
  Heads<const float> dout;
  Heads<const float> out;
  float* delta = nullptr;
};

/// One sample in the backward. `queries` rows stand at positions position.. (position 0 unless the
/// dQ pass of a context-parallel rank asks for a chunk). Owned keys [keys.begin, keys.end) get dk
/// and dv (rows keys.begin - dk_first .. of dk, dv); an empty range asks for dq alone.
struct AttentionBackwardSample {
  Range queries;         // rows of q, dout, lse, delta
  int64_t position = 0;  // of the first query row
  Heads<const float> k;  // [keys, G, D], row p is position p
  Heads<const float> v;
  Range keys;          // positions whose dk, dv are asked for
  int64_t dk_row = 0;  // row of dk and dv that takes position keys.begin
};

/// dq, dk, dv. p = exp(s - lse), dP = chain(dout v), dS = p (dP - delta), dk and dq scaled once at
/// the end by fl(1/sqrt(D)).
/// Shapes: q, dout, dq [T, H, D]; lse, delta [T, H]; dk, dv [rows, G, D]. dq without data: not
/// asked for.
/// Order: dk, dv of a key: query heads of the group ascending outermost; inside a head, query
/// blocks of 64 at absolute positions, one fma chain from +0 per block, folded left to right from
/// +0 over all blocks of all heads. dq of a query: the same over key blocks of 64.
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

}  // namespace rlreplay::kernels

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/view.h"

/// The orders of summation that depend on the problem alone (docs/numerics.md section 2).
namespace rlreplay::kernels {

inline constexpr int64_t kDotLeaf = 128;     // consecutive k of one fma chain in `dot`
inline constexpr int64_t kTokenLeaf = 256;   // tokens of a sample in one fma chain of `tokens`
inline constexpr int64_t kRowLanes = 32;     // lanes of `row`
inline constexpr int64_t kRowBlock = 1024;   // elements of one block of `row`
inline constexpr int64_t kAxisSegments = 8;  // T of the intermediate axis and of the vocabulary

/// Borders of segment i of T over n elements: [floor(i n / T), floor((i + 1) n / T)).
[[nodiscard]] Range segment(int64_t n, int64_t segments, int64_t i);

/// How many segments an attention axis has: the largest power of two that divides the number of
/// query heads and is not above kAxisSegments.
[[nodiscard]] int64_t attention_segments(int64_t query_heads);

/// How the inner axis of a product is summed: `dot(K, T)`. A segment is a list of ranges of k;
/// each range is cut into leaves of kDotLeaf, each leaf is one fma chain from +0 over ascending k,
/// the leaves of a segment are folded left to right from +0 (no leaf gives +0), and the segments
/// are combined by the perfect binary tree ((s0+s1)+(s2+s3))+... Their count is a power of two.
struct DotOrder {
  std::vector<std::vector<Range>> segments;

  /// The segments of one rank, [first, first + count), with k counted from their first range:
  /// a rank's part of the sum is the subtree over them. Ranges must be adjacent (not fused).
  DotOrder part(int64_t first, int64_t count) const;
};

/// dot(k, T): one range a segment.
[[nodiscard]] DotOrder dot_order(int64_t k, int64_t segments);

/// The inner axis of the dx of fused products: several axes stacked (q, k, v; gate, up). Segment s
/// is the leaf list of the ranges that the axes assign to it, in the order of the axes.
/// axes[a][s] is the range of stacked k that axis a gives to segment s.
[[nodiscard]] DotOrder fused_dot_order(std::span<const std::vector<Range>> axes);

/// The leaves of one sample of `length` tokens whose rows start at `first_row`: rows
/// [first_row + j chunk, first_row + (j + 1) chunk), the last one shorter.
void append_token_leaves(int64_t first_row, int64_t length, int64_t chunk,
                         std::vector<Range>& leaves);

}  // namespace rlreplay::kernels

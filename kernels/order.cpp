#include "kernels/order.h"

#include <algorithm>
#include <bit>

#include "src/base/error.h"

namespace rlreplay::kernels {

Range segment(int64_t n, int64_t segments, int64_t i) {
  return {n * i / segments, n * (i + 1) / segments};
}

int64_t attention_segments(int64_t query_heads) {
  int64_t segments = 1;
  while (segments < kAxisSegments && query_heads % (2 * segments) == 0) segments *= 2;
  return segments;
}

DotOrder DotOrder::part(int64_t first, int64_t count) const {
  check(count > 0 && std::has_single_bit(static_cast<uint64_t>(count)) && first % count == 0 &&
            first >= 0 && first + count <= static_cast<int64_t>(segments.size()),
        "a part of a dot order must be a subtree of it");
  const auto begin = segments.begin() + first;
  const int64_t origin = begin->front().begin;
  DotOrder out;
  int64_t at = origin;
  for (auto it = begin; it != begin + count; ++it) {
    check(it->size() == 1 && it->front().begin == at, "a part of a fused dot order has gaps");
    at = it->front().end;
    out.segments.push_back({{it->front().begin - origin, at - origin}});
  }
  return out;
}

DotOrder dot_order(int64_t k, int64_t segments) {
  check(segments > 0 && std::has_single_bit(static_cast<uint64_t>(segments)),
        "the number of segments must be a power of two");
  DotOrder out;
  for (int64_t s = 0; s < segments; ++s) out.segments.push_back({segment(k, segments, s)});
  return out;
}

DotOrder fused_dot_order(std::span<const std::vector<Range>> axes) {
  check(!axes.empty() && std::has_single_bit(axes.front().size()),
        "the number of segments must be a power of two");
  DotOrder out;
  for (size_t s = 0; s < axes.front().size(); ++s) {
    auto& ranges = out.segments.emplace_back();
    for (const auto& axis : axes) {
      check(axis.size() == axes.front().size(), "fused axes must have equally many segments");
      ranges.push_back(axis[s]);
    }
  }
  return out;
}

void append_token_leaves(int64_t first_row, int64_t length, int64_t chunk,
                         std::vector<Range>& leaves) {
  for (int64_t at = 0; at < length; at += chunk) {
    leaves.push_back({first_row + at, first_row + std::min(length, at + chunk)});
  }
}

}  // namespace rlreplay::kernels

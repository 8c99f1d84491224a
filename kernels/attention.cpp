#include "kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"

namespace rlreplay::kernels {
namespace {

bool same_shape(Heads<const float> a, Heads<const float> b) {
  return a.tokens == b.tokens && a.heads == b.heads && a.dim == b.dim;
}

bool inside(Range range, int64_t size) {
  return 0 <= range.begin && range.begin <= range.end && range.end <= size;
}

void check_head_size(int64_t size) {
  check(1 <= size && size <= kMaxHeadSize, "attention supports head sizes 1 to 256");
}

void check_sample(Range queries, int64_t position, Heads<const float> k, Heads<const float> v,
                  const HeadGroups& groups, Heads<const float> q) {
  check(inside(queries, q.tokens) && position >= 0, "a sample's queries must be rows of q");
  if (queries.size() == 0) return;
  check(k.dim == q.dim && v.dim == q.dim, "keys, values and queries must have one head size");
  const int64_t kv_heads = groups.kv_heads(q.heads);
  check(k.heads >= kv_heads && v.heads >= kv_heads, "attention misses kv heads of its group");
  const int64_t keys = position + queries.size();
  check(k.tokens >= keys && v.tokens >= keys, "attention misses keys up to its last query");
}

}  // namespace

float attention_scale(int64_t head_size) { return 1.0f / std::sqrt(static_cast<float>(head_size)); }

/// A rank may begin and end inside of a group: the group's query heads are cut to the rank's.
Range HeadGroups::query_heads(int64_t kv_head, int64_t heads) const {
  const int64_t first = (first_head / group + kv_head) * group - first_head;
  return {std::max<int64_t>(0, first), std::min(heads, first + group)};
}

void check_operands(const Attention& op) {
  check_head_size(op.q.dim);
  check(op.groups.group > 0 && op.groups.first_head >= 0, "a group of heads cannot be empty");
  check(same_shape(op.q, op.out), "attention's output must have the shape of its queries");
  for (const auto& sample : op.samples) {
    check_sample(sample.queries, sample.position, sample.k, sample.v, op.groups, op.q);
  }
}

void check_operands(const AttentionDelta& op) {
  check_head_size(op.out.dim);
  check(same_shape(op.dout, op.out), "an output and its gradient must have one shape");
}

void check_operands(const AttentionBackward& op) {
  check_head_size(op.q.dim);
  check(op.groups.group > 0 && op.groups.first_head >= 0, "a group of heads cannot be empty");
  check(same_shape(op.q, op.dout), "attention's dout must have the shape of its queries");
  check(op.dq.data == nullptr || same_shape(op.q, op.dq), "dq must have the shape of q");
  for (const auto& sample : op.samples) {
    check_sample(sample.queries, sample.position, sample.k, sample.v, op.groups, op.q);
    if (sample.keys.size() <= 0) continue;
    check(inside(sample.keys, std::min(sample.k.tokens, sample.v.tokens)),
          "the keys whose gradients are asked for must be rows of k and v");
    const Range rows = {sample.dk_row, sample.dk_row + sample.keys.size()};
    check(inside(rows, std::min(op.dk.tokens, op.dv.tokens)),
          "dk and dv have too few rows for the keys that are asked for");
    check(op.dk.dim == op.q.dim && op.dv.dim == op.q.dim, "dk, dv and q must have one head size");
    check(std::min(op.dk.heads, op.dv.heads) >= op.groups.kv_heads(op.q.heads),
          "dk and dv miss kv heads");
  }
}

}  // namespace rlreplay::kernels

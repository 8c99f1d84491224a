#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "tests/kernels/support.h"

namespace rlreplay::kernels::test {

struct AttentionShape {
  std::vector<int64_t> lengths;  // queries of each sample
  int64_t heads = 1;
  int64_t group = 1;
  int64_t size = 8;
  int64_t first_head = 0;
  int64_t position = 0;  // of each sample's first query
};

/// A batch with every tensor of attention on guarded, unaligned memory, and its operations.
class AttentionBatch {
 public:
  explicit AttentionBatch(const AttentionShape& s)
      : shape(s),
        groups{s.first_head, s.group},
        kv_heads(groups.kv_heads(s.heads)),
        tokens(total(s.lengths, 0)),
        keys(total(s.lengths, s.position)),
        q(tokens, s.heads * s.size),
        dout(tokens, s.heads * s.size, 1, 3),
        out(tokens, s.heads * s.size, 5, 1),
        dq(tokens, s.heads * s.size),
        k(keys, kv_heads * s.size, 7, 2),
        v(keys, kv_heads * s.size, 2, 9),
        dk(keys, kv_heads * s.size),
        dv(keys, kv_heads * s.size, 1, 1),
        lse(tokens, s.heads, 3, 0),
        delta(tokens, s.heads, 1, 0) {}

  /// All inputs from `next()`.
  template <class Next>
  void fill(Next next) {
    for (auto* x : {&q, &dout, &k, &v}) {
      for (int64_t r = 0; r < x->view().rows; ++r) {
        for (int64_t c = 0; c < x->view().cols; ++c) (*x)(r, c) = next();
      }
    }
  }

  std::vector<AttentionSample> samples() const {
    std::vector<AttentionSample> out_samples;
    int64_t row = 0, key = 0;
    for (const int64_t n : shape.lengths) {
      const int64_t count = shape.position + n;
      out_samples.push_back({{row, row + n}, shape.position, kv(k, key, count), kv(v, key, count)});
      row += n;
      key += count;
    }
    return out_samples;
  }
  std::vector<AttentionBackwardSample> backward_samples() const {
    std::vector<AttentionBackwardSample> out_samples;
    int64_t key = 0;
    for (const auto& s : samples()) {
      const int64_t count = s.k.tokens;
      out_samples.push_back({s.queries, s.position, s.k, s.v, {0, count}, key});
      key += count;
    }
    return out_samples;
  }

  Attention forward_op(const std::vector<AttentionSample>& list) {
    return {list, groups, query_heads(q), query_heads(out), lse.view().data};
  }
  AttentionDelta delta_op() { return {query_heads(dout), query_heads(out), delta.view().data}; }
  AttentionBackward backward_op(const std::vector<AttentionBackwardSample>& list) {
    return {list,
            groups,
            query_heads(q),
            query_heads(dout),
            lse.view().data,
            delta.view().data,
            query_heads(dq),
            key_heads(dk),
            key_heads(dv)};
  }

  void forward(const KernelSet& set, ThreadPool& pool) {
    set.attention(forward_op(samples()), pool);
  }
  void backward(const KernelSet& set, ThreadPool& pool) {
    set.attention_delta(delta_op(), pool);
    set.attention_backward(backward_op(backward_samples()), pool);
  }
  std::string forward_bytes() const { return out.bytes() + lse.bytes(); }
  std::string backward_bytes() const {
    return delta.bytes() + dq.bytes() + dk.bytes() + dv.bytes();
  }
  bool intact() const {
    bool whole = lse.intact() && delta.intact();
    for (const auto* x : {&q, &dout, &out, &dq, &k, &v, &dk, &dv}) whole = whole && x->intact();
    return whole;
  }

  Heads<float> query_heads(Guarded<float>& x) const {
    return {x.view().data, tokens, shape.heads, shape.size, x.view().stride};
  }
  Heads<float> key_heads(Guarded<float>& x) const {
    return {x.view().data, keys, kv_heads, shape.size, x.view().stride};
  }
  Heads<const float> kv(const Guarded<float>& x, int64_t row, int64_t count) const {
    return {x.view().row(row), count, kv_heads, shape.size, x.view().stride};
  }

  AttentionShape shape;
  HeadGroups groups;
  int64_t kv_heads, tokens, keys;
  Guarded<float> q, dout, out, dq;  // [tokens, H D]
  Guarded<float> k, v, dk, dv;      // [keys of all samples, G D]
  Guarded<float> lse, delta;        // [tokens, H]

 private:
  static int64_t total(const std::vector<int64_t>& lengths, int64_t each) {
    int64_t sum = 0;
    for (const int64_t n : lengths) sum += n + each;
    return sum;
  }
};

}  // namespace rlreplay::kernels::test

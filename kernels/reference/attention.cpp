#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/contract.h"
#include "kernels/order.h"
#include "kernels/reference/reference.h"

namespace rlreplay::kernels::reference {
namespace {

float exp(float x) { return contract::exp<contract::Scalar>(x); }
float log(float x) { return contract::log<contract::Scalar>(x); }

/// One fma chain from +0.
float chain(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}

/// The fold of the 32 lanes of `row`, as the only block after +0.
float fold_lanes(std::array<float, kRowLanes> lanes) {
  for (int64_t distance = kRowLanes / 2; distance > 0; distance /= 2) {
    for (int64_t i = 0; i < distance; ++i) lanes[i] = lanes[i] + lanes[i + distance];
  }
  return 0.0f + lanes[0];
}

/// row(p) of at most kRowBlock numbers.
float row_sum(const std::vector<float>& p) {
  std::array<float, kRowLanes> lanes{};
  for (size_t i = 0; i < p.size(); ++i) lanes[i % kRowLanes] += p[i];
  return fold_lanes(lanes);
}

/// row(a b) of at most kRowBlock products.
float row_product(const float* a, const float* b, int64_t n) {
  std::array<float, kRowLanes> lanes{};
  for (int64_t i = 0; i < n; ++i) {
    lanes[i % kRowLanes] = std::fma(a[i], b[i], lanes[i % kRowLanes]);
  }
  return fold_lanes(lanes);
}

/// An unfinished softmax: maximum, denominator, numerators.
struct State {
  float m = 0;
  float l = 0;
  std::vector<float> o;
};

struct Keys {
  Heads<const float> k;
  Heads<const float> v;
  int64_t head;
};

/// One block of keys into the state of its split.
void add_block(const float* q, const Keys& keys, Range block, bool first, State& state) {
  const int64_t size = keys.k.dim;
  const float scale = attention_scale(size);
  std::vector<float> p;
  for (int64_t j = block.begin; j < block.end; ++j) {
    p.push_back(chain(q, keys.k.at(j, keys.head), size) * scale);
  }
  float m = *std::max_element(p.begin(), p.end());
  if (!first) m = std::max(m, state.m);
  for (float& x : p) x = exp(x - m);
  if (first) {
    state.l = row_sum(p);
    state.o.assign(size, 0.0f);
  } else {
    const float alpha = exp(state.m - m);
    state.l = std::fma(state.l, alpha, row_sum(p));
    for (float& x : state.o) x = x * alpha;
  }
  state.m = m;
  for (int64_t j = block.begin; j < block.end; ++j) {
    const float* v = keys.v.at(j, keys.head);
    for (int64_t c = 0; c < size; ++c) {
      state.o[c] = std::fma(p[j - block.begin], v[c], state.o[c]);
    }
  }
}

State run_split(const float* q, const Keys& keys, Range split) {
  State state;
  for (int64_t at = split.begin; at < split.end; at += kKeyBlock) {
    const Range block = {at, std::min(split.end, at + kKeyBlock)};
    add_block(q, keys, block, at == split.begin, state);
  }
  return state;
}

/// The state over the splits of `left` and then `right`.
void merge(State& left, const State& right) {
  const float m = std::max(left.m, right.m);
  const float a1 = exp(left.m - m), a2 = exp(right.m - m);
  left.m = m;
  left.l = std::fma(left.l, a1, right.l * a2);
  for (size_t c = 0; c < left.o.size(); ++c) {
    left.o[c] = std::fma(left.o[c], a1, right.o[c] * a2);
  }
}

/// Attention of one query that sees `count` keys.
State attend(const float* q, const Keys& keys, int64_t count) {
  State state = run_split(q, keys, {0, std::min(count, kKeySplit)});
  for (int64_t at = kKeySplit; at < count; at += kKeySplit) {
    merge(state, run_split(q, keys, {at, std::min(count, at + kKeySplit)}));
  }
  return state;
}

void attention(const Attention& op, ThreadPool&) {
  check_operands(op);
  for (const auto& sample : op.samples) {
    for (int64_t t = sample.queries.begin; t < sample.queries.end; ++t) {
      const int64_t count = sample.position + (t - sample.queries.begin) + 1;
      for (int64_t h = 0; h < op.q.heads; ++h) {
        const State state =
            attend(op.q.at(t, h), {sample.k, sample.v, op.groups.kv_head(h)}, count);
        const float inverse = 1.0f / state.l;
        for (int64_t c = 0; c < op.q.dim; ++c) op.out.at(t, h)[c] = state.o[c] * inverse;
        op.lse[t * op.q.heads + h] = state.m + log(state.l);
      }
    }
  }
}

void attention_delta(const AttentionDelta& op, ThreadPool&) {
  check_operands(op);
  for (int64_t t = 0; t < op.out.tokens; ++t) {
    for (int64_t h = 0; h < op.out.heads; ++h) {
      op.delta[t * op.out.heads + h] = row_product(op.dout.at(t, h), op.out.at(t, h), op.out.dim);
    }
  }
}

/// One query head of one sample in the backward, by positions of queries and keys.
struct Backward {
  const AttentionBackward& op;
  const AttentionBackwardSample& sample;
  int64_t head;

  int64_t first() const { return sample.position; }
  int64_t end() const { return sample.position + sample.queries.size(); }
  int64_t row(int64_t query) const { return sample.queries.begin + query - sample.position; }
  const float* q(int64_t query) const { return op.q.at(row(query), head); }
  const float* dout(int64_t query) const { return op.dout.at(row(query), head); }
  const float* k(int64_t key) const { return sample.k.at(key, op.groups.kv_head(head)); }
  const float* v(int64_t key) const { return sample.v.at(key, op.groups.kv_head(head)); }

  float p(int64_t query, int64_t key) const {
    const float s = chain(q(query), k(key), op.q.dim) * attention_scale(op.q.dim);
    return exp(s - op.lse[row(query) * op.q.heads + head]);
  }
  float ds(int64_t query, int64_t key, float probability) const {
    const float dp = chain(dout(query), v(key), op.q.dim);
    return probability * (dp - op.delta[row(query) * op.q.heads + head]);
  }
};

/// First position after `at` where a block of `size` positions begins.
int64_t next_block(int64_t at, int64_t size) { return (at / size + 1) * size; }

/// Folds one head into dk and dv of a key.
void add_head(const Backward& b, int64_t key, std::vector<float>& dk, std::vector<float>& dv) {
  const int64_t size = b.op.q.dim;
  int64_t next = 0;
  for (int64_t at = std::max(b.first(), key); at < b.end(); at = next) {
    next = std::min(b.end(), next_block(at, kQueryBlock));
    std::vector<float> chain_k(size, 0.0f), chain_v(size, 0.0f);
    for (int64_t i = at; i < next; ++i) {
      const float p = b.p(i, key);
      const float ds = b.ds(i, key, p);
      for (int64_t c = 0; c < size; ++c) {
        chain_k[c] = std::fma(ds, b.q(i)[c], chain_k[c]);
        chain_v[c] = std::fma(p, b.dout(i)[c], chain_v[c]);
      }
    }
    for (int64_t c = 0; c < size; ++c) {
      dk[c] = dk[c] + chain_k[c];
      dv[c] = dv[c] + chain_v[c];
    }
  }
}

void key_gradients(const AttentionBackward& op, const AttentionBackwardSample& sample) {
  const int64_t size = op.q.dim;
  const int64_t kv_heads = op.groups.kv_heads(op.q.heads);
  for (int64_t key = sample.keys.begin; key < sample.keys.end; ++key) {
    const int64_t row = sample.dk_row + key - sample.keys.begin;
    for (int64_t g = 0; g < kv_heads; ++g) {
      std::vector<float> dk(size, 0.0f), dv(size, 0.0f);
      const Range heads = op.groups.query_heads(g, op.q.heads);
      for (int64_t h = heads.begin; h < heads.end; ++h) add_head({op, sample, h}, key, dk, dv);
      for (int64_t c = 0; c < size; ++c) {
        op.dk.at(row, g)[c] = dk[c] * attention_scale(size);
        op.dv.at(row, g)[c] = dv[c];
      }
    }
  }
}

void query_gradient(const Backward& b, int64_t query) {
  const int64_t size = b.op.q.dim;
  std::vector<float> dq(size, 0.0f);
  for (int64_t at = 0; at <= query; at += kKeyBlock) {
    std::vector<float> sum(size, 0.0f);
    for (int64_t key = at; key < std::min(query + 1, at + kKeyBlock); ++key) {
      const float ds = b.ds(query, key, b.p(query, key));
      for (int64_t c = 0; c < size; ++c) sum[c] = std::fma(ds, b.k(key)[c], sum[c]);
    }
    for (int64_t c = 0; c < size; ++c) dq[c] = dq[c] + sum[c];
  }
  float* out = b.op.dq.at(b.row(query), b.head);
  for (int64_t c = 0; c < size; ++c) out[c] = dq[c] * attention_scale(size);
}

void attention_backward(const AttentionBackward& op, ThreadPool&) {
  check_operands(op);
  for (const auto& sample : op.samples) {
    if (sample.keys.size() > 0) key_gradients(op, sample);
    if (op.dq.data == nullptr) continue;
    for (int64_t h = 0; h < op.q.heads; ++h) {
      const Backward b{op, sample, h};
      for (int64_t query = b.first(); query < b.end(); ++query) query_gradient(b, query);
    }
  }
}

}  // namespace

void add_attention(KernelSet& set) {
  set.attention = attention;
  set.attention_delta = attention_delta;
  set.attention_backward = attention_backward;
}

}  // namespace rlreplay::kernels::reference

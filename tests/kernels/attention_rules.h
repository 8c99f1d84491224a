#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/contract.h"
#include "tests/kernels/support.h"

/// A second transcription of attention, in which every rule can be broken. One sample, all its
/// queries, rows [tokens, heads, size] and [tokens, kv heads, size].
namespace rlreplay::kernels::test {

struct AttentionRules {
  // forward
  int64_t key_block = 64;
  int64_t key_split = 512;
  int64_t lanes = 32;        // of `row`
  bool scale_query = false;  // before the chain over D, not after it
  bool scale_by_division = false;
  bool score_backward = false;    // chain over descending d
  bool start_with_first = false;  // chain of o begins with its first product, not with +0
  bool fold_blocks = false;       // o of a block is a chain of its own, added to o alpha
  bool plain_l = false;           // l alpha + row(p) with two roundings
  bool row_over_split = false;    // denominators: every lane goes on over all blocks of a split
  bool global_max = false;        // one maximum for all blocks
  bool mask_with_zero = false;    // keys after the query enter with p = 0, up to the block's end
  bool merge_right = false;       // splits merged right to left
  bool plain_merge = false;       // l1 a1 + l2 a2 with three roundings
  bool merge_lone = false;        // a lone split is merged into an empty state
  bool divide = false;            // o / l, not o div(1, l)
  bool lse_from_two = false;      // lse = log(l exp(m)), not m + log l
  // backward
  int64_t query_block = 64;
  int64_t dq_block = 64;
  bool heads_descending = false;
  bool heads_apart = false;      // every head folded from +0 alone, the heads added
  bool heads_innermost = false;  // query blocks outermost
  bool fold_from_first = false;  // folds begin with their first chain, not with +0
  bool scale_early = false;      // dS is scaled, not dk and dq
  bool spread_ds = false;        // p dP - p delta
  bool fused_ds = false;         // fma(p, dP, -(p delta))
  bool p_from_sum = false;       // p = exp(s - m) / l, not exp(s - lse)
};

class RuledAttention {
 public:
  RuledAttention(const AttentionRules& rules, int64_t tokens, int64_t heads, int64_t kv_heads,
                 int64_t size)
      : rules_(rules), tokens_(tokens), heads_(heads), kv_heads_(kv_heads), size_(size) {}

  std::vector<float> q, k, v, dout;                // inputs
  std::vector<float> out, lse, delta, dq, dk, dv;  // results

  void run() {
    out.assign(q.size(), 0);
    dq = out;
    dk.assign(k.size(), 0);
    dv = dk;
    lse.assign(static_cast<size_t>(tokens_ * heads_), 0);
    delta = m_ = l_ = lse;
    for (int64_t t = 0; t < tokens_; ++t) {
      for (int64_t h = 0; h < heads_; ++h) attend(t, h);
    }
    for (int64_t t = 0; t < tokens_; ++t) {
      for (int64_t g = 0; g < kv_heads_; ++g) key_gradients(t, g);
      for (int64_t h = 0; h < heads_; ++h) query_gradient(t, h);
    }
  }

 private:
  using Vector = std::vector<float>;
  struct State {
    float m = 0, l = 0;
    Vector o;
  };

  static float exp(float x) { return contract::exp<contract::Scalar>(x); }
  static float log(float x) { return contract::log<contract::Scalar>(x); }
  float factor() const { return 1.0f / std::sqrt(static_cast<float>(size_)); }
  int64_t group() const { return heads_ / kv_heads_; }
  size_t scalar(int64_t t, int64_t h) const { return static_cast<size_t>(t * heads_ + h); }
  const float* query(const Vector& x, int64_t t, int64_t h) const {
    return x.data() + (t * heads_ + h) * size_;
  }
  const float* key(const Vector& x, int64_t t, int64_t h) const {
    return x.data() + (t * kv_heads_ + h / group()) * size_;
  }

  float score(int64_t t, int64_t j, int64_t h) const {
    const float *a = query(q, t, h), *b = key(k, j, h);
    float sum = 0;
    for (int64_t i = 0; i < size_; ++i) {
      const int64_t c = rules_.score_backward ? size_ - 1 - i : i;
      sum = std::fma(rules_.scale_query ? a[c] * factor() : a[c], b[c], sum);
    }
    if (rules_.scale_query) return sum;
    return rules_.scale_by_division ? sum / std::sqrt(static_cast<float>(size_)) : sum * factor();
  }

  float fold(Vector lanes) const {
    for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return 0.0f + lanes[0];
  }

  State split(int64_t t, int64_t h, int64_t from, int64_t end) const {
    State s;
    s.o.assign(static_cast<size_t>(size_), 0.0f);
    Vector lanes(static_cast<size_t>(rules_.lanes), 0.0f);
    for (int64_t at = from; at < end; at += rules_.key_block) {
      const int64_t stop = std::min(end, at + rules_.key_block);
      Vector p;
      for (int64_t j = at; j < stop; ++j) p.push_back(score(t, j, h));
      float m = *std::max_element(p.begin(), p.end());
      if (rules_.global_max) {
        for (int64_t j = 0; j <= t; ++j) m = std::max(m, score(t, j, h));
      }
      if (at > from) m = std::max(m, s.m);
      for (float& x : p) x = exp(x - m);
      const float alpha = at > from ? exp(s.m - m) : 1.0f;
      if (!rules_.row_over_split) std::fill(lanes.begin(), lanes.end(), 0.0f);
      if (rules_.row_over_split) {
        for (float& lane : lanes) lane *= alpha;
      }
      for (size_t i = 0; i < p.size(); ++i) lanes[i % lanes.size()] += p[i];
      const float row = fold(lanes);
      if (at == from || rules_.row_over_split) {
        s.l = row;
      } else {
        s.l = rules_.plain_l ? s.l * alpha + row : std::fma(s.l, alpha, row);
      }
      s.m = m;
      add_values(h, at, p, alpha, s.o);
    }
    return s;
  }

  void add_values(int64_t h, int64_t at, Vector p, float alpha, Vector& o) const {
    const int64_t block_end = std::min(tokens_, at + rules_.key_block);
    if (rules_.mask_with_zero) p.resize(static_cast<size_t>(block_end - at), 0.0f);
    for (int64_t c = 0; c < size_; ++c) {
      float& sum = o[static_cast<size_t>(c)];
      sum *= alpha;
      float chain = rules_.fold_blocks ? 0.0f : sum;
      for (size_t i = 0; i < p.size(); ++i) {
        const int64_t j = at + static_cast<int64_t>(i);
        const float x = key(v, j, h)[c];
        chain = rules_.start_with_first && j == 0 ? p[i] * x : std::fma(p[i], x, chain);
      }
      sum = rules_.fold_blocks ? sum + chain : chain;
    }
  }

  State merged(const State& a, const State& b) const {
    State out_state;
    const float m = std::max(a.m, b.m), f1 = exp(a.m - m), f2 = exp(b.m - m);
    const auto add = [&](float x, float y) {
      return rules_.plain_merge ? x * f1 + y * f2 : std::fma(x, f1, y * f2);
    };
    out_state.m = m;
    out_state.l = add(a.l, b.l);
    for (size_t c = 0; c < a.o.size(); ++c) out_state.o.push_back(add(a.o[c], b.o[c]));
    return out_state;
  }

  void attend(int64_t t, int64_t h) {
    std::vector<State> splits;
    for (int64_t at = 0; at <= t; at += rules_.key_split) {
      splits.push_back(split(t, h, at, std::min(t + 1, at + rules_.key_split)));
    }
    State s = rules_.merge_right ? splits.back() : splits.front();
    for (size_t i = 1; i < splits.size(); ++i) {
      s = rules_.merge_right ? merged(splits[splits.size() - 1 - i], s) : merged(s, splits[i]);
    }
    if (rules_.merge_lone && splits.size() == 1) {
      s = merged({-1e30f, 0, Vector(s.o.size(), 0.0f)}, s);
    }
    Vector lanes(static_cast<size_t>(rules_.lanes), 0.0f);
    for (int64_t c = 0; c < size_; ++c) {
      const size_t i = static_cast<size_t>(c);
      const float x = rules_.divide ? s.o[i] / s.l : s.o[i] * (1.0f / s.l);
      out[scalar(t, h) * static_cast<size_t>(size_) + i] = x;
      float& lane = lanes[i % lanes.size()];
      lane = std::fma(query(dout, t, h)[c], x, lane);
    }
    const size_t at = scalar(t, h);
    delta[at] = fold(lanes);
    lse[at] = rules_.lse_from_two ? log(s.l * exp(s.m)) : s.m + log(s.l);
    m_[at] = s.m;
    l_[at] = s.l;
  }

  struct Gradient {
    float p, ds;
  };
  Gradient gradient(int64_t t, int64_t j, int64_t h) const {
    const float s = score(t, j, h);
    const size_t at = scalar(t, h);
    const float p = rules_.p_from_sum ? exp(s - m_[at]) * (1.0f / l_[at]) : exp(s - lse[at]);
    float dp = 0;
    for (int64_t c = 0; c < size_; ++c) {
      dp = std::fma(query(dout, t, h)[c], key(v, j, h)[c], dp);
    }
    float ds = p * (dp - delta[at]);
    if (rules_.spread_ds) ds = p * dp - p * delta[at];
    if (rules_.fused_ds) ds = std::fma(p, dp, -(p * delta[at]));
    return {p, rules_.scale_early ? ds * factor() : ds};
  }

  void add_fold(Vector& sum, const Vector& chain, bool first) const {
    for (size_t c = 0; c < sum.size(); ++c) {
      sum[c] = rules_.fold_from_first && first ? chain[c] : sum[c] + chain[c];
    }
  }

  /// Chains of dk and dv of one head and query block.
  void block_chains(int64_t j, int64_t h, int64_t from, int64_t end, Vector& ck, Vector& cv) const {
    ck.assign(static_cast<size_t>(size_), 0.0f);
    cv = ck;
    for (int64_t t = std::max(from, j); t < end; ++t) {
      const Gradient g = gradient(t, j, h);
      for (int64_t c = 0; c < size_; ++c) {
        const size_t i = static_cast<size_t>(c);
        ck[i] = std::fma(g.ds, query(q, t, h)[c], ck[i]);
        cv[i] = std::fma(g.p, query(dout, t, h)[c], cv[i]);
      }
    }
  }

  void key_gradients(int64_t j, int64_t g) {
    struct Part {
      int64_t head, block;
    };
    const int64_t first_block = j / rules_.query_block;
    const int64_t blocks = (tokens_ + rules_.query_block - 1) / rules_.query_block;
    std::vector<Part> parts;
    for (int64_t i = 0; i < group(); ++i) {
      const int64_t h = g * group() + (rules_.heads_descending ? group() - 1 - i : i);
      for (int64_t b = first_block; b < blocks; ++b) parts.push_back({h, b});
    }
    if (rules_.heads_innermost) {
      std::stable_sort(parts.begin(), parts.end(),
                       [](const Part& a, const Part& b) { return a.block < b.block; });
    }
    const Vector zero(static_cast<size_t>(size_), 0.0f);
    Vector sk = zero, sv = zero, hk = zero, hv = zero, ck, cv;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t from = parts[i].block * rules_.query_block;
      block_chains(j, parts[i].head, from, std::min(tokens_, from + rules_.query_block), ck, cv);
      if (!rules_.heads_apart) {
        add_fold(sk, ck, i == 0);
        add_fold(sv, cv, i == 0);
        continue;
      }
      add_fold(hk, ck, false);
      add_fold(hv, cv, false);
      if (i + 1 == parts.size() || parts[i + 1].head != parts[i].head) {
        add_fold(sk, hk, false);
        add_fold(sv, hv, false);
        hk = hv = zero;
      }
    }
    for (int64_t c = 0; c < size_; ++c) {
      const size_t i = static_cast<size_t>(c);
      const size_t to = static_cast<size_t>((j * kv_heads_ + g) * size_ + c);
      dk[to] = rules_.scale_early ? sk[i] : sk[i] * factor();
      dv[to] = sv[i];
    }
  }

  void query_gradient(int64_t t, int64_t h) {
    Vector sum(static_cast<size_t>(size_), 0.0f);
    for (int64_t at = 0; at <= t; at += rules_.dq_block) {
      Vector chain(sum.size(), 0.0f);
      for (int64_t j = at; j < std::min(t + 1, at + rules_.dq_block); ++j) {
        const float ds = gradient(t, j, h).ds;
        for (int64_t c = 0; c < size_; ++c) {
          float& x = chain[static_cast<size_t>(c)];
          x = std::fma(ds, key(k, j, h)[c], x);
        }
      }
      add_fold(sum, chain, at == 0);
    }
    for (int64_t c = 0; c < size_; ++c) {
      const float x = sum[static_cast<size_t>(c)];
      dq[scalar(t, h) * static_cast<size_t>(size_) + static_cast<size_t>(c)] =
          rules_.scale_early ? x : x * factor();
    }
  }

  AttentionRules rules_;
  int64_t tokens_, heads_, kv_heads_, size_;
  Vector m_, l_;
};

}  // namespace rlreplay::kernels::test

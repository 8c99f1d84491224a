#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "src/replay/rerun/operation_forms.h"

namespace rlreplay::replay {
namespace {

using kernels::Heads;
using kernels::KernelSet;
using kernels::Matrix;
using kernels::Range;

Heads<const float> queries(const Operation& op, size_t input) {
  return {op.rows[input].data, op.count, op.model.heads, op.model.head_dim};
}

Heads<const float> keys(const Operation& op, size_t input) {
  return {op.rows[input].data, op.count, op.model.kv_heads, op.model.head_dim};
}

Heads<const float> of_sample(Heads<const float> all, Range rows) {
  return {all.at(rows.begin, 0), rows.size(), all.heads, all.dim};
}

kernels::HeadGroups groups_of(const Operation& op) {
  return {0, op.model.heads / op.model.kv_heads};
}

/// The rows of the sample that a row is of.
Range sample_of(const Operation& op, int64_t row) {
  return *std::ranges::upper_bound(op.batch.chunks, row, {}, &Range::end);
}

double scale64(const Operation& op) {
  return 1 / std::sqrt(static_cast<double>(op.model.head_dim));
}

/// delta = dout . out, a head.
void compute_delta(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  runtime.run(&KernelSet::attention_delta, {queries(op, 0), queries(op, 1), out.data});
}

/// A query and a key of the backward: the probability p = e^(score - lse), and the derivative of
/// the loss by the score, p (dp - delta), from the recorded lse and delta.
struct Pair64 {
  double p = 0, ds = 0;
};

Pair64 pair64(const Operation& op, int64_t query, int64_t key, int64_t head, int64_t kv_head) {
  const int64_t D = op.model.head_dim;
  const double score =
      dot64(queries(op, 0).at(query, head), keys(op, 1).at(key, kv_head), D) * scale64(op);
  const double p = std::exp(score - op.rows[4](query, head));
  const double dp = dot64(queries(op, 3).at(query, head), keys(op, 2).at(key, kv_head), D);
  return {p, p * (dp - op.rows[5](query, head))};
}

/// dq = sum over the keys up to the query of ds k / sqrt(D).
void dq64(const Operation& op, int64_t row, std::span<double> out) {
  const int64_t D = op.model.head_dim;
  for (int64_t h = 0; h < op.model.heads; ++h) {
    const int64_t kv_head = groups_of(op).kv_head(h);
    for (int64_t key = sample_of(op, row).begin; key <= row; ++key) {
      const double ds = pair64(op, row, key, h, kv_head).ds * scale64(op);
      const float* k = keys(op, 1).at(key, kv_head);
      for (int64_t d = 0; d < D; ++d) out[static_cast<size_t>(h * D + d)] += ds * k[d];
    }
  }
}

/// Sums for a key over the queries from it on: dk = sum of ds q / sqrt(D), or dv = sum of p dout.
void dkv64(const Operation& op, int64_t row, bool value, std::span<double> out) {
  const int64_t D = op.model.head_dim;
  for (int64_t h = 0; h < op.model.heads; ++h) {
    const int64_t kv_head = groups_of(op).kv_head(h);
    for (int64_t query = row; query < sample_of(op, row).end; ++query) {
      const Pair64 pair = pair64(op, query, row, h, kv_head);
      const double factor = value ? pair.p : pair.ds * scale64(op);
      const float* x = queries(op, value ? 3 : 0).at(query, h);
      for (int64_t d = 0; d < D; ++d) out[static_cast<size_t>(kv_head * D + d)] += factor * x[d];
    }
  }
}

}  // namespace

void compute_attention(const Operation& op, const engine::Runtime& runtime, Matrix<float> out) {
  const bool lse = op.event.tensor == "lse";
  // No value has a part in lse: any will do.
  const Heads<const float> q = queries(op, 0), k = keys(op, 1), v = lse ? k : keys(op, 2);
  std::vector<kernels::AttentionSample> samples;
  for (const Range& rows : op.batch.chunks) {
    samples.push_back({rows, 0, of_sample(k, rows), of_sample(v, rows)});
  }
  std::vector<float> other(static_cast<size_t>(q.tokens * q.heads * (lse ? q.dim : 1)));
  float* mixed = lse ? other.data() : out.data;
  runtime.run(&KernelSet::attention, {samples,
                                      groups_of(op),
                                      q,
                                      {mixed, q.tokens, q.heads, q.dim},
                                      lse ? out.data : other.data()});
}

void attention64(const Operation& op, int64_t row, std::span<double> out) {
  const int64_t D = op.model.head_dim, first = sample_of(op, row).begin;
  std::vector<double> score(static_cast<size_t>(row - first + 1));
  for (int64_t h = 0; h < op.model.heads; ++h) {
    const int64_t kv_head = groups_of(op).kv_head(h);
    for (int64_t key = first; key <= row; ++key) {
      score[static_cast<size_t>(key - first)] =
          dot64(queries(op, 0).at(row, h), keys(op, 1).at(key, kv_head), D) * scale64(op);
    }
    const double most = *std::ranges::max_element(score);
    double sum = 0;
    for (const double s : score) sum += std::exp(s - most);
    if (op.event.tensor == "lse") {
      out[static_cast<size_t>(h)] = most + std::log(sum);
      continue;
    }
    for (int64_t key = first; key <= row; ++key) {
      const double p = std::exp(score[static_cast<size_t>(key - first)] - most) / sum;
      const float* v = keys(op, 2).at(key, kv_head);
      for (int64_t d = 0; d < D; ++d) out[static_cast<size_t>(h * D + d)] += p * v[d];
    }
  }
}

void compute_attention_backward(const Operation& op, const engine::Runtime& runtime,
                                Matrix<float> out) {
  if (op.event.tensor == "delta") return compute_delta(op, runtime, out);
  const Heads<const float> q = queries(op, 0), k = keys(op, 1), v = keys(op, 2);
  std::vector<kernels::AttentionBackwardSample> samples;
  for (const Range& rows : op.batch.chunks) {
    samples.push_back(
        {rows, 0, of_sample(k, rows), of_sample(v, rows), {0, rows.size()}, rows.begin});
  }
  std::vector<float> dq(static_cast<size_t>(q.tokens * q.heads * q.dim));
  std::vector<float> dk(static_cast<size_t>(k.tokens * k.heads * k.dim)), dv(dk.size());
  const auto place = [&](std::string_view tensor, std::vector<float>& other) {
    return op.event.tensor == tensor ? out.data : other.data();
  };
  runtime.run(&KernelSet::attention_backward, {samples,
                                               groups_of(op),
                                               q,
                                               queries(op, 3),
                                               op.rows[4].data,
                                               op.rows[5].data,
                                               {place("dq", dq), q.tokens, q.heads, q.dim},
                                               {place("dk", dk), k.tokens, k.heads, k.dim},
                                               {place("dv", dv), k.tokens, k.heads, k.dim}});
}

void attention_backward64(const Operation& op, int64_t row, std::span<double> out) {
  if (op.event.tensor == "dq") return dq64(op, row, out);
  if (op.event.tensor != "delta") return dkv64(op, row, op.event.tensor == "dv", out);
  for (int64_t h = 0; h < op.model.heads; ++h) {
    out[static_cast<size_t>(h)] =
        dot64(queries(op, 0).at(row, h), queries(op, 1).at(row, h), op.model.head_dim);
  }
}

}  // namespace rlreplay::replay

#include <algorithm>
#include <cmath>

#include "kernels/contract.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/row_sum.h"

namespace rlreplay::kernels::reference {
namespace {

using contract::Scalar;

void vocab_max(const VocabMax& op, ThreadPool&) {
  for (int64_t t = 0; t < op.logits.rows; ++t) {
    float m = -INFINITY;
    for (int64_t j = 0; j < op.logits.cols; ++j) {
      float& l = op.logits(t, j);
      l = l / op.temperature;
      if (l > m) m = l;
    }
    op.max[t] = m + 0.0f;  // -0 becomes +0
  }
}

void vocab_sums(const VocabSums& op, ThreadPool&) {
  for (int64_t t = 0; t < op.logits.rows; ++t) {
    for (size_t s = 0; s < op.segments.size(); ++s) {
      const float* l = op.logits.row(t) + op.segments[s].begin;
      const int64_t n = op.segments[s].size();
      const float m = op.max[t];
      op.z(t, static_cast<int64_t>(s)) =
          row(n, [&](int64_t i, float lane) { return lane + contract::exp<Scalar>(l[i] - m); });
      op.e(t, static_cast<int64_t>(s)) = row(n, [&](int64_t i, float lane) {
        return fmaf(contract::exp<Scalar>(l[i] - m), l[i] - m, lane);
      });
    }
  }
}

void log_prob(const LogProb& op, ThreadPool&) {
  for (int64_t t = 0; t < op.z.rows; ++t) {
    const float z = tree(op.z.row(t), op.z.cols), e = tree(op.e.row(t), op.e.cols);
    const float log_z = contract::log<Scalar>(z);
    op.sum[t] = z;
    op.log_sum[t] = log_z;
    op.log_prob[t] = (op.label_logit[t] - op.max[t]) - log_z;
    op.entropy[t] = log_z - e / z;
  }
}

void log_prob_backward(const LogProbBackward& op, ThreadPool&) {
  for (int64_t t = 0; t < op.logits.rows; ++t) {
    const float c = op.c[t], ce = op.ce[t];
    const float inverse = 1.0f / op.sum[t];
    for (int64_t j = 0; j < op.logits.cols; ++j) {
      const float x = op.logits(t, j) - op.max[t];
      const float p = contract::exp<Scalar>(x) * inverse;
      const float taken = j == op.labels[t] ? 1.0f : 0.0f;
      const float d = fmaf(ce * p, (x - op.log_sum[t]) + op.entropy[t], (p - taken) * c);
      op.dlogits(t, j) = c == 0.0f && ce == 0.0f ? 0.0f : d / op.temperature;
    }
  }
}

}  // namespace

void add_vocab(KernelSet& set) {
  set.vocab_max = vocab_max;
  set.vocab_sums = vocab_sums;
  set.log_prob = log_prob;
  set.log_prob_backward = log_prob_backward;
}

}  // namespace rlreplay::kernels::reference

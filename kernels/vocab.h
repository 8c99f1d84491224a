#pragma once

#include <cstdint>
#include <span>

#include "kernels/view.h"

/// From logits to log-probabilities, entropy and their gradients. Orders by the names of
/// docs/numerics.md section 2.
namespace rlreplay::kernels {

/// l = div(logit, temperature) in place, and max[t] = exact maximum of l over the local columns, +0
/// where it is a zero of either sign, -infinity without columns.
/// Shapes: logits [T, V_local]; max [T]. temperature > 0 (temperature 0 scores at 1).
/// Order: any, also of the maxima of several ranks or column ranges.
struct VocabMax {
  Matrix<float> logits;
  float temperature = 1;
  float* max = nullptr;
};

/// Per vocabulary segment: z = row(exp(l - m)), e = row of fma(exp(l - m), l - m); an empty segment
/// gives +0.
/// Shapes: logits [T, V_local] after VocabMax; max [T] over the whole vocabulary; segments: ranges
/// of local columns; z, e [T, segments].
/// Order: `row(n)` in each segment, its index restarting there.
struct VocabSums {
  Matrix<const float> logits;
  const float* max = nullptr;
  std::span<const Range> segments;
  Matrix<float> z;
  Matrix<float> e;
};

/// Z = tree(z), E = tree(e), log_prob = (label_logit - max) - log Z, entropy = log Z - div(E, Z).
/// Shapes: z, e [T, segments of the whole vocabulary], a power of two; label_logit, max [T] (l of
/// the label, after the temperature); outputs [T].
/// Order: the perfect binary tree over the segments, as of `dot(K, T)`.
struct LogProb {
  Matrix<const float> z;
  Matrix<const float> e;
  const float* max = nullptr;
  const float* label_logit = nullptr;
  float* sum = nullptr;  // Z
  float* log_sum = nullptr;
  float* log_prob = nullptr;
  float* entropy = nullptr;
};

/// p = exp(l - m) div(1, Z); d = fma(ce p, ((l - m) - log Z) + H, (p - 1[y]) c);
/// dlogit = div(d, temperature).
/// Shapes: logits [T, V_local] after VocabMax, dlogits the same (may be the same memory); max, sum
/// (Z), log_sum, entropy (H) [T]; labels [T], the local column, or any value outside of them where
/// the label is another rank's; c = -dL/dlog_prob and ce = entropy_coef w_t, [T]. A row with c and
/// ce both zero (masked, padding) gets +0 everywhere, whatever its other inputs are.
/// Order: nothing is summed.
struct LogProbBackward {
  Matrix<const float> logits;
  const float* max = nullptr;
  const float* sum = nullptr;
  const float* log_sum = nullptr;
  const float* entropy = nullptr;
  const int32_t* labels = nullptr;
  const float* c = nullptr;
  const float* ce = nullptr;
  float temperature = 1;
  Matrix<float> dlogits;
};

}  // namespace rlreplay::kernels

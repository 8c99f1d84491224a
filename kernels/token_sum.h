#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace rlreplay::kernels {

/// An exact sum over tokens: every contribution is rounded to the nearest multiple of 2^-scale,
/// ties to even, and added to an int64, so that no split and no order of the tokens can change a
/// bit. Partial sums may wrap; only single contributions are judged.
///
/// Units: sum[i] counts 2^-scale.
/// Errors: a contribution is accepted if and only if |a| < 2^(62 - scale - ceil(log2
/// contributions)), which NaN fails; one that is not adds nothing and sets *overflow to 1. The
/// caller then redoes the whole backward at scale - 8.
struct TokenSum {
  Matrix<int64_t> sum;           // the shape of the parameter; a vector has one row
  int scale = 0;                 // S
  int64_t contributions = 1;     // to this tensor, in the global batch, padding not counted
  uint32_t* overflow = nullptr;  // set, never cleared, by any worker
};

/// 62 - scale - ceil(log2 contributions): |a| must be below 2^limit_exponent.
int limit_exponent(int scale, int64_t contributions);

/// The scale S of a step: min(126, 46 - ceil(log2 weight)), 0 counts as 1.
/// Units: weight is the total loss weight in binary64 (docs/numerics.md section 2).
int token_scale(double weight);

}  // namespace rlreplay::kernels

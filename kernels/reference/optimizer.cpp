#include <cmath>

#include "kernels/reference/reference.h"

namespace rlreplay::kernels::reference {
namespace {

/// limbs += value 2^(32 first), carries propagated: every limb stays below 2^32.
void add_at(uint64_t (&limbs)[5], size_t first, uint64_t value) {
  for (size_t i = first; value != 0; ++i) {
    const uint64_t sum = limbs[i] + (value & 0xffffffffu);
    limbs[i] = sum & 0xffffffffu;
    value = (value >> 32) + (sum >> 32);
  }
}

void sum_squares(const SumSquares& op, ThreadPool&) {
  uint64_t limbs[5] = {};
  for (const int64_t x : op.grad) {
    const uint64_t size = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    const uint64_t high = size >> 32, low = size & 0xffffffffu;
    add_at(limbs, 0, low * low);
    add_at(limbs, 1, 2 * (high * low));
    add_at(limbs, 2, high * high);
  }
  for (size_t i = 0; i < 5; ++i) (*op.out)[i] += static_cast<int64_t>(limbs[i]);
}

void token_gradient(const TokenGradient& op, ThreadPool&) {
  const float unit = std::ldexp(1.0f, -op.scale);
  for (size_t i = 0; i < op.sum.size(); ++i) op.grad[i] = static_cast<float>(op.sum[i]) * unit;
}

void adamw(const AdamW& op, ThreadPool&) {
  const AdamWStep& s = op.step;
  const double unit = std::ldexp(1.0, -op.scale);
  for (size_t i = 0; i < op.sum.size(); ++i) {
    const double g = (static_cast<double>(op.sum[i]) * unit) * static_cast<double>(op.clip);
    const double m = std::fma(s.beta1, static_cast<double>(op.m[i]), s.one_minus_beta1 * g);
    const double v = std::fma(s.beta2, static_cast<double>(op.v[i]), (s.one_minus_beta2 * g) * g);
    const double d = std::fma(std::sqrt(v), s.inverse_root, s.eps);
    const double w = static_cast<double>(op.w[i]);
    op.m[i] = static_cast<float>(m);
    op.v[i] = static_cast<float>(v);
    op.w[i] = static_cast<float>(std::fma(-s.step_size, m / d, std::fma(-s.decay, w, w)));
  }
}

}  // namespace

void add_optimizer(KernelSet& set) {
  set.sum_squares = sum_squares;
  set.token_gradient = token_gradient;
  set.adamw = adamw;
}

}  // namespace rlreplay::kernels::reference

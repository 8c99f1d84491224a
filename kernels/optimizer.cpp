#include "kernels/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "src/base/error.h"

namespace rlreplay::kernels {
namespace {

constexpr int kLimbBits = 32;

/// Bits [at, at + 32) of a number of propagated limbs.
uint64_t bits_at(const std::array<uint64_t, 5>& limbs, int at) {
  const auto limb = static_cast<size_t>(at / kLimbBits);
  const uint64_t low = limbs[limb];
  const uint64_t high = limb + 1 < limbs.size() ? limbs[limb + 1] : 0;
  return ((high << kLimbBits | low) >> (at % kLimbBits)) & 0xffffffffu;
}

bool any_below(const std::array<uint64_t, 5>& limbs, int bit) {
  for (int at = 0; at < bit; ++at) {
    if (limbs[static_cast<size_t>(at / kLimbBits)] >> (at % kLimbBits) & 1) return true;
  }
  return false;
}

/// The nearest binary64, ties to even.
double to_double(const std::array<uint64_t, 5>& limbs) {
  size_t top = limbs.size();
  while (top > 0 && limbs[top - 1] == 0) --top;
  if (top == 0) return 0;
  const int width = static_cast<int>(top - 1) * kLimbBits + std::bit_width(limbs[top - 1]);
  // 64 bits, the lowest of which also says whether anything follows, round once.
  const int shift = std::max(0, width - 64);
  uint64_t head = bits_at(limbs, shift + kLimbBits) << kLimbBits | bits_at(limbs, shift);
  if (any_below(limbs, shift)) head |= 1;
  return std::ldexp(static_cast<double>(head), shift);
}

double power(double base, int64_t exponent) {
  double out = 1;
  for (int64_t i = 0; i < exponent; ++i) out *= base;
  return out;
}

}  // namespace

double norm(const SquareSum& sum, int scale) {
  std::array<uint64_t, 5> limbs;
  uint64_t carry = 0;
  for (size_t i = 0; i < limbs.size(); ++i) {
    const uint64_t value = static_cast<uint64_t>(sum[i]) + carry;
    limbs[i] = i + 1 < limbs.size() ? value & 0xffffffffu : value;
    carry = value >> kLimbBits;
  }
  return std::ldexp(std::sqrt(to_double(limbs)), -scale);
}

float clip_scale(double norm, float max_norm, float eps) {
  return std::min(1.0f, max_norm / (static_cast<float>(norm) + eps));
}

AdamWStep adamw_step(const AdamWOptions& options, int64_t step) {
  const auto is_beta = [](double beta) { return beta >= 0 && beta < 1; };
  if (step < 1 || !is_beta(options.beta1) || !is_beta(options.beta2)) {
    throw Error(ErrorCode::kUsage,
                "AdamW needs betas in [0, 1) and counts steps from 1, got beta1 " +
                    std::to_string(options.beta1) + ", beta2 " + std::to_string(options.beta2) +
                    ", step " + std::to_string(step));
  }
  AdamWStep out;
  out.beta1 = options.beta1;
  out.one_minus_beta1 = 1 - options.beta1;
  out.beta2 = options.beta2;
  out.one_minus_beta2 = 1 - options.beta2;
  out.eps = options.eps;
  out.decay = options.rate * options.weight_decay;
  out.step_size = options.rate / (1 - power(options.beta1, step));
  out.inverse_root = 1 / std::sqrt(1 - power(options.beta2, step));
  return out;
}

}  // namespace rlreplay::kernels

#include "kernels/token_sum.h"

#include <algorithm>
#include <bit>
#include <string>

#include "src/base/error.h"

namespace rlreplay::kernels {

int limit_exponent(int scale, int64_t contributions) {
  check(contributions >= 0, "a number of contributions is negative");
  const auto last = static_cast<uint64_t>(std::max<int64_t>(contributions, 1) - 1);
  return 62 - scale - static_cast<int>(std::bit_width(last));
}

TokenRounding token_rounding(const TokenSum& sum) {
  const int exponent = limit_exponent(sum.scale, sum.contributions);
  return {exponent > 127 ? INFINITY : std::ldexp(1.0f, exponent), std::ldexp(1.0, sum.scale)};
}

int token_scale(double weight) {
  if (!(weight >= 0) || std::isinf(weight)) {
    throw Error(ErrorCode::kUsage, "the total loss weight must be finite and not negative, got " +
                                       std::to_string(weight) +
                                       "; check the weights and advantages of the batch");
  }
  if (weight == 0) weight = 1;
  int exponent;  // weight = fraction 2^exponent, fraction in [1/2, 1)
  const double fraction = std::frexp(weight, &exponent);
  return std::min(126, 46 - (fraction == 0.5 ? exponent - 1 : exponent));
}

}  // namespace rlreplay::kernels

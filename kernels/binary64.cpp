#include "kernels/binary64.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "src/base/error.h"

namespace rlreplay::kernels::binary64 {
namespace {

// Adding this rounds to the nearest integer, ties to even.
constexpr double kRoundShift = 0x1.8p52;

// ln 2 and pi / 2 in parts; products of all but the last part with integers below 2^20 are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kHalfPi1 = 0x1.921fb544p+0;
constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;

constexpr double kLargestAngle = 1.6e6;

double power_of_two(int n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

/// Sum of coefficients[i] z^i, i descending from the last.
double polynomial(std::span<const double> coefficients, double z) {
  double sum = coefficients.back();
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = std::fma(sum, z, coefficients[i]);
  return sum;
}

/// An angle within a quarter turn: x = quadrant pi / 2 + high + low, |high| <= pi / 4.
struct Angle {
  int quadrant;
  double high;
  double low;
};

Angle reduce(double x) {
  if (!(std::fabs(x) <= kLargestAngle)) {
    throw Error(ErrorCode::kUnsupported, "an angle of " + std::to_string(x) +
                                             " radians is outside what the rotary table "
                                             "supports, " +
                                             std::to_string(kLargestAngle) +
                                             ": use fewer positions");
  }
  const double n = (x * 0x1.45f306dc9c883p-1 + kRoundShift) - kRoundShift;  // 2 / pi
  const double first = std::fma(n, -kHalfPi1, x);
  const double second = n * kHalfPi2;
  const double high = first - second;
  const double low = std::fma(n, -kHalfPi3, (first - high) - second);
  const double r = high + low;
  return {static_cast<int>(static_cast<int64_t>(n) & 3), r, (high - r) + low};
}

double sin_near_zero(const Angle& a) {
  constexpr double kTaylor[] = {-1.0 / 6,
                                1.0 / 120,
                                -1.0 / 5040,
                                1.0 / 362880,
                                -1.0 / 39916800,
                                1.0 / 6227020800.0,
                                -1.0 / 1307674368000.0,
                                1.0 / 355687428096000.0};
  const double z = a.high * a.high;
  // sin(high + low) = sin(high) + low cos(high), cos(high) = 1 - z / 2.
  const double rest = std::fma(z * a.high, polynomial(kTaylor, z), a.low * (1 - 0.5 * z));
  return a.high + rest;
}

double cos_near_zero(const Angle& a) {
  constexpr double kTaylor[] = {1.0 / 24,
                                -1.0 / 720,
                                1.0 / 40320,
                                -1.0 / 3628800,
                                1.0 / 479001600,
                                -1.0 / 87178291200.0,
                                1.0 / 20922789888000.0,
                                -1.0 / 6402373705728000.0};
  const double z = a.high * a.high;
  const double half = 0.5 * z;
  const double one = 1 - half;
  const double lost = (1 - one) - half;
  return one + (lost + std::fma(z * z, polynomial(kTaylor, z), -a.high * a.low));
}

/// 1 / n! from n = 2 on.
constexpr double kExpTaylor[] = {1.0 / 2,
                                 1.0 / 6,
                                 1.0 / 24,
                                 1.0 / 120,
                                 1.0 / 720,
                                 1.0 / 5040,
                                 1.0 / 40320,
                                 1.0 / 362880,
                                 1.0 / 3628800,
                                 1.0 / 39916800,
                                 1.0 / 479001600,
                                 1.0 / 6227020800.0,
                                 1.0 / 87178291200.0,
                                 1.0 / 1307674368000.0,
                                 1.0 / 20922789888000.0,
                                 1.0 / 355687428096000.0,
                                 1.0 / 6402373705728000.0,
                                 1.0 / 121645100408832000.0,
                                 1.0 / 2432902008176640000.0};

/// (exp(x) - 1 - x) / x^2 for |x| <= 1.
double exp_tail(double x) { return polynomial(kExpTaylor, x); }

}  // namespace

double exp(double x) {
  if (x != x) return x;
  if (x > 710) return std::numeric_limits<double>::infinity();
  if (x < -708) return 0;
  const double n = (x * 0x1.71547652b82fep+0 + kRoundShift) - kRoundShift;  // log2 e
  const double high = std::fma(n, -kLn2High, x);
  const double low = n * -kLn2Low;
  const double r = high + low;
  const double lost = (high - r) + low;
  const double y = 1 + (r + std::fma(r * r, polynomial(std::span(kExpTaylor).first(13), r), lost));
  // 2^1024 does not exist, so the scaling takes two steps.
  const int k = static_cast<int>(n);
  return y * power_of_two(k / 2) * power_of_two(k - k / 2);
}

double expm1(double x) {
  if (std::fabs(x) <= 1) return std::fma(x * x, exp_tail(x), x);
  return exp(x) - 1;
}

double k3(double x) {
  if (std::fabs(x) <= 1) return x * x * exp_tail(x);
  const double large = exp(x) - 1;
  return std::isfinite(large) ? large - x : std::fabs(large);  // of infinities: infinity
}

double log(double x) {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1).
  const int64_t bits = std::bit_cast<int64_t>(x);
  const int64_t e = (bits - std::bit_cast<int64_t>(0x1.6a09e667f3bcdp-1)) >> 52;
  const double m = std::bit_cast<double>(bits - e * (int64_t{1} << 52));
  const double f = m - 1;
  const double s = f / (2 + f);
  constexpr double kSeries[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  const double z = s * s;
  // 2 s = f - f^2 / 2 + s f^2 / 2, so that f itself is never rounded.
  const double half = 0.5 * f * f;
  const double rest = s * (half + z * polynomial(kSeries, z));
  const double n = static_cast<double>(e);
  return n * kLn2High + (f - (half - (rest + n * kLn2Low)));
}

double sin(double x) {
  const Angle a = reduce(x);
  const double size = a.quadrant % 2 == 0 ? sin_near_zero(a) : cos_near_zero(a);
  return a.quadrant < 2 ? size : -size;
}

double cos(double x) {
  const Angle a = reduce(x);
  const double size = a.quadrant % 2 == 0 ? cos_near_zero(a) : sin_near_zero(a);
  return a.quadrant == 0 || a.quadrant == 3 ? size : -size;
}

double pow(double base, double exponent) {
  const double l = log(base);
  const double product = exponent * l;
  const double lost = std::fma(exponent, l, -product);
  const double y = exp(product);
  return std::fma(y, lost, y);
}

}  // namespace rlreplay::kernels::binary64

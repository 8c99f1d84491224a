#pragma once

/// Elementary functions in binary64 from + - * / and fma alone, so that tables and rates which the
/// host computes have the same bits on every machine. Errors stay below 1 ulp (exp, log, sin, cos),
/// 6 ulp (expm1, k3) and 16 ulp (pow).
namespace rlreplay::kernels::binary64 {

/// 0 below -708 (no subnormals), infinity above 709.78.
[[nodiscard]] double exp(double x);

/// exp(x) - 1 and exp(x) - 1 - x, with all their digits near 0.
[[nodiscard]] double expm1(double x);
[[nodiscard]] double k3(double x);

/// x positive, normal and finite.
[[nodiscard]] double log(double x);

/// |x| <= 1.6e6.
/// Errors: kUnsupported for larger arguments, whose reduction would lose bits.
[[nodiscard]] double sin(double x);
[[nodiscard]] double cos(double x);

/// base^exponent = exp(exponent log base), base positive.
[[nodiscard]] double pow(double base, double exponent);

}  // namespace rlreplay::kernels::binary64

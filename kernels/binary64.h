#pragma once

/// Elementary functions in binary64 from + - * / and fma alone, so that tables and rates which the
/// host computes have the same bits on every machine. Errors stay below 1 ulp (exp, log, sin, cos)
/// and 16 ulp (pow).
namespace rlreplay::kernels::binary64 {

/// 0 below -708 (no subnormals), infinity above 709.78.
double exp(double x);

/// x positive, normal and finite.
double log(double x);

/// |x| <= 1.6e6.
/// Errors: kUnsupported for larger arguments, whose reduction would lose bits.
double sin(double x);
double cos(double x);

/// base^exponent = exp(exponent log base), base positive.
double pow(double base, double exponent);

}  // namespace rlreplay::kernels::binary64

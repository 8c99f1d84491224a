#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// The functions of the contract over arrays, by name: for whoever measures or compares them.
namespace rlreplay::kernels {

/// The functions of docs/numerics.md section 3; kK3 is exp(x) - 1 - x without cancellation.
enum class Function { kExp, kLog, kExpm1, kK3, kSigmoid, kSilu, kTanh, kRsqrt };

inline constexpr Function kFunctions[] = {
    Function::kExp,     Function::kLog,  Function::kExpm1, Function::kK3,
    Function::kSigmoid, Function::kSilu, Function::kTanh,  Function::kRsqrt,
};

[[nodiscard]] constexpr std::string_view to_string(Function function) {
  constexpr std::string_view kNames[] = {"exp",     "log",  "expm1", "k3",
                                         "sigmoid", "silu", "tanh",  "rsqrt"};
  return kNames[static_cast<int>(function)];
}

/// One way to compute the functions; all of them give the same bits.
struct FunctionSet {
  std::string_view name;  // scalar, avx512, avx2, neon
  /// y[i] = function(x[i]). Shapes: x [n], y [n]; y may be x.
  void (*apply)(Function function, std::span<const float> x, float* y) = nullptr;
};

/// One element after the other: what every SIMD target is compared with.
[[nodiscard]] FunctionSet scalar_functions();

/// One set for each SIMD target of this processor, fastest first.
[[nodiscard]] const std::vector<FunctionSet>& simd_functions();

}  // namespace rlreplay::kernels

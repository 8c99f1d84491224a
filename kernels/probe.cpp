#include "kernels/probe.h"

#include <array>
#include <latch>
#include <string>
#include <vector>

#include "kernels/functions.h"
#include "kernels/probe_items.h"
#include "kernels/sweep_input.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"

namespace rlreplay::kernels {
namespace {

/// The likely reason of a wrong digest. Volatile: to be computed now, not by the compiler.
std::string reason() {
  volatile float tiny = 0x1p-126f, one = 1, half_unit = 0x1p-24f, three_quarters = 0x1.8p-24f;
  volatile float subnormal = 0x1p-149f;
  if (tiny * 0.5f == 0 || subnormal * 1.0f == 0 || subnormal + 0.0f == 0) {
    return "subnormal numbers are flushed to zero; a library that was built with -ffast-math "
           "switches this on when it is loaded";
  }
  if (one + half_unit != 1 || one + three_quarters == 1) {
    return "the rounding mode is not to nearest; something called fesetround";
  }
  volatile float factor = 1 + 0x1p-12f;
  if (contract::Scalar::fma(factor, factor, -1 - 0x1p-11f) != 0x1p-24f) {
    return "fma rounds twice; the C library of this machine does not fuse";
  }
  return "this program was built with options that change arithmetic (-ffast-math, "
         "-ffp-contract=fast)";
}

uint64_t function_digest(const FunctionSet& set, Function function) {
  constexpr uint64_t kSamples = 256;
  std::array<float, kSamples + kSweepEdges> x, y;
  for (size_t i = 0; i < x.size(); ++i) x[i] = probe::float_of(sweep_input(i, kSamples, 1));
  set.apply(function, x, y.data());
  uint64_t sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += mix_pair(static_cast<uint32_t>(contract::Scalar::bits(x[i])), y[i]);
  }
  return sum;
}

}  // namespace

ProbeDigests probe_arithmetic() {
  ProbeDigests out;
  for (uint32_t i = 0; i < probe::kItems; ++i) out.operations += probe::operations(i);
  for (int64_t row = 0; row < probe::kProductRows; ++row) {
    for (int64_t column = 0; column < probe::kProductColumns; ++column) {
      const auto name = static_cast<uint32_t>(row * probe::kProductColumns + column);
      out.product += mix_pair(name, probe::product(row, column));
    }
  }
  std::array<int64_t, probe::kSums> sums{};
  for (uint32_t i = 0; i < probe::kContributions; ++i) {
    int64_t& sum = sums[i % probe::kSums];
    sum = add_wrapping(sum, probe::contribution(i));
  }
  for (uint32_t i = 0; i < probe::kSums; ++i) {
    out.sums += probe::mix_integer(i, static_cast<uint64_t>(sums[i]));
  }
  return out;
}

void prove_arithmetic() {
  if (probe_arithmetic() != kProbeDigests) {
    throw Error(ErrorCode::kEnvironment,
                "this process does not compute as the numeric contract says: " + reason());
  }
  const FunctionSet scalar = scalar_functions();
  for (const FunctionSet& set : simd_functions()) {
    for (const Function function : kFunctions) {
      if (function_digest(set, function) == function_digest(scalar, function)) continue;
      throw Error(ErrorCode::kEnvironment, "the vector unit (" + std::string(set.name) +
                                               ") computes " + std::string(to_string(function)) +
                                               " otherwise than the scalar unit: " + reason());
    }
  }
}

void prove_arithmetic(ThreadPool& pool) {
  // Every item waits for all others, so that each worker must take exactly one.
  std::latch arrived(pool.threads());
  pool.run(pool.threads(), [&](int64_t, int) {
    arrived.arrive_and_wait();
    prove_arithmetic();
  });
}

}  // namespace rlreplay::kernels

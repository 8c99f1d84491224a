#pragma once

#include <cstdint>
#include <vector>

/// Stock ATen operators, for comparison: oracles in float32 or float64 for the tests, baselines
/// for the benchmarks. Nothing here keeps the numeric contract.
namespace rlreplay::aten {

/// A tensor on its way in or out of libtorch, row-major; float32 and int64 values below 2^53 are
/// exact in it. No shape and no values: a tensor that is not given.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

enum class Precision { kFloat32, kFloat64 };

}  // namespace rlreplay::aten

#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "kernels/token_sum.h"
#include "src/base/buffer.h"
#include "src/engine/parameters.h"

namespace rlreplay::engine {

/// How many contributions the tensors of a step get from the global batch.
struct ContributionCounts {
  int64_t tokens = 0;
  int64_t leaves = 0;
};

/// The exact gradient sums of a step, in the flat storage's order, and their scale.
class Gradients {
 public:
  explicit Gradients(const ParameterTable& parameters);

  /// Sums to zero, flags down.
  void begin(int scale, const ContributionCounts& counts);

  int scale() const { return scale_; }
  const Buffer<int64_t>& sums() const { return sums_; }
  kernels::Matrix<int64_t> sum(int parameter);

  /// The sum that contributions to adjacent parameters go to: `{q, k, v}` are one matrix of stacked
  /// rows, biases one vector.
  kernels::TokenSum token_sum(std::initializer_list<int> parameters);

  /// The first parameter that refused a contribution, -1 if none did.
  int overflowed() const;

 private:
  int64_t contributions(const Parameter& parameter) const;

  const ParameterTable* parameters_;
  Buffer<int64_t> sums_;
  std::vector<uint32_t> overflow_;
  ContributionCounts counts_;
  int scale_ = 0;
};

}  // namespace rlreplay::engine

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/token_sum.h"
#include "src/base/buffer.h"
#include "src/base/parameters.h"

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

  /// No contributions yet, flags down. A sum is set to zero when its first contribution comes, or
  /// overwritten by it.
  void begin(int scale, const ContributionCounts& counts);
  /// Sets the sums that had no contribution to zero: from here on all are there.
  void finish();

  int scale() const { return scale_; }
  const Buffer<int64_t>& sums() const { return sums_; }
  /// All of them, after `finish`, for what other ranks add.
  std::span<int64_t> all_sums() { return sums_; }
  kernels::Matrix<int64_t> sum(int parameter);

  /// The sum that contributions to adjacent parameters go to: `{q, k, v}` are one matrix of stacked
  /// rows, biases one vector.
  kernels::TokenSum token_sum(std::initializer_list<int> parameters);

  /// The gradient of such a matrix in a product of `x` with it, whose gradient is `dy`.
  kernels::MatmulTokens product(kernels::Matrix<const float> dy, kernels::Matrix<const float> x,
                                std::span<const kernels::Range> leaves,
                                std::initializer_list<int> parameters);

  /// The element whose contribution could not be added: of those that are NaN or infinite the first
  /// in order of parameters and elements, and where all are finite, the first that is too large for
  /// the scale.
  struct Refused {
    int parameter = 0;
    int64_t element = 0;  // of the parameter, row-major
    bool finite = true;   // whether a smaller scale may take it
  };
  [[nodiscard]] std::optional<Refused> refused() const;

 private:
  int64_t contributions(const Parameter& parameter) const;
  /// token_sum, whatever the elements hold.
  kernels::TokenSum place_of(std::initializer_list<int> parameters);
  /// Sets sums without a contribution to zero.
  void settle(int parameter);

  const ParameterTable* parameters_;
  Buffer<int64_t> sums_;
  std::vector<bool> begun_;  // by parameter: whether its sum holds anything of this step
  std::vector<kernels::Rejected> rejected_;  // by the first parameter of those that are fused
  ContributionCounts counts_;
  int scale_ = 0;
};

}  // namespace rlreplay::engine

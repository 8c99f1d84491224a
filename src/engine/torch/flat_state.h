#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "src/base/parameters.h"
#include "src/engine/backend.h"
#include "src/engine/torch/operators.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// Weights and moments in the flat storage's order, and each parameter as a view of it.
class FlatState {
 public:
  FlatState(const ParameterTable& parameters, Precision precision, bool training);

  /// Leaves of the autograd graph, one a parameter.
  const std::vector<at::Tensor>& weights() const { return weights_; }
  const std::vector<at::Tensor>& first() const { return first_; }
  const std::vector<at::Tensor>& second() const { return second_; }

  /// The state itself, or in float64 a copy rounded to float32.
  StateSpans<float> spans();
  /// Takes over what was written to the spans.
  void adopt();

 private:
  struct Flat {
    at::Tensor values;
    at::Tensor rounded;  // float32: the same tensor
  };
  Flat make_flat(int64_t elements, Precision precision) const;

  std::vector<Flat> flats_;  // weights, then the moments of a model in training
  std::vector<at::Tensor> weights_, first_, second_;
};

}  // namespace rlreplay::aten

#pragma once

#include <ATen/ATen.h>

#include "src/engine/torch/operators.h"

/// For the files of this folder alone.
namespace rlreplay::aten {

/// ATen's name of the type.
[[nodiscard]] at::ScalarType scalar_type(Precision precision);

/// A tensor of its own; values are rounded to `precision`.
/// Errors: kInternal where the shape does not hold the values.
[[nodiscard]] at::Tensor to_tensor(const Array& array, Precision precision);

/// Like to_tensor, as a leaf of the autograd graph: `grad()` is filled by `backward`.
[[nodiscard]] at::Tensor to_parameter(const Array& array, Precision precision);

/// A tensor of int64, for ids and positions. Errors: as to_tensor; also for no integers.
[[nodiscard]] at::Tensor to_integers(const Array& array);

/// Any strides, any dtype that a double holds. An undefined tensor gives no shape and no values.
[[nodiscard]] Array to_array(const at::Tensor& tensor);

}  // namespace rlreplay::aten

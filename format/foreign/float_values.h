#pragma once

#include <optional>
#include <span>

#include "format/foreign/safetensors_file.h"

namespace rlreplay::foreign {

/// Widens the elements of an f32, bf16 or f16 tensor to binary32, exactly, NaN payloads included.
/// Shapes: out [count]. Errors: kUnsupported for another element type.
void to_float(const StoredTensor& tensor, std::span<float> out);

/// An element of a tensor that is no finite number.
struct NonFinite {
  int64_t index = 0;  // flat, row-major
  bool nan = false;   // otherwise infinite
};

/// The first NaN or infinity of an f32, bf16 or f16 tensor.
/// Errors: kUnsupported for another element type.
[[nodiscard]] std::optional<NonFinite> first_nonfinite(const StoredTensor& tensor);

}  // namespace rlreplay::foreign

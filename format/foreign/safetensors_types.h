#pragma once

#include <optional>
#include <string_view>

#include "src/base/dtype.h"

namespace rlreplay::foreign {

/// The element type that safetensors calls `name` ("BF16").
[[nodiscard]] std::optional<DType> safetensors_dtype(std::string_view name);

/// The name of safetensors for an element type.
[[nodiscard]] std::string_view safetensors_name(DType dtype);

}  // namespace rlreplay::foreign

#pragma once

#include <string>

#include "src/base/model_config.h"

namespace rlreplay {

/// In what a model's shape is not the expected one: "hidden 64 (expected 896), vocab 14 (expected
/// 151936)". Empty where same_shape() holds.
[[nodiscard]] std::string shape_difference(const ModelConfig& found, const ModelConfig& expected);

}  // namespace rlreplay

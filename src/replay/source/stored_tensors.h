#pragma once

#include <span>
#include <vector>

#include "format/foreign/safetensors_file.h"
#include "src/base/parameters.h"

namespace rlreplay::replay {

/// Weights, in the flat storage's order, as tensors of a checkpoint that view them.
std::vector<foreign::StoredTensor> stored_tensors(const ParameterTable& parameters,
                                                  std::span<const float> weights);

}  // namespace rlreplay::replay

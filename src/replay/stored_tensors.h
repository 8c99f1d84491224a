#pragma once

#include <vector>

#include "format/foreign/safetensors_file.h"
#include "src/engine/model.h"

namespace rlreplay::replay {

/// The model's weights as tensors of a checkpoint; they live as long as the model.
std::vector<foreign::StoredTensor> stored_tensors(const engine::Model& model);

}  // namespace rlreplay::replay

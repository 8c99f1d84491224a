#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/model_config.h"

namespace rlreplay::foreign {

/// Reads FOLDER/config.json, as transformers wrote it before or since version 5, and the stop ids
/// of FOLDER/generation_config.json where there is one. Errors: kUnsupported, naming what is not
/// supported; kCorrupt, naming the key; kIncomplete where there is no config.json.
ModelConfig read_model_config(const std::string& folder);

/// A tensor that a checkpoint of this configuration must hold.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// All tensors of a model, by their names on disk: embedding, layers, final norm, and the head
/// where it is not tied.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace rlreplay::foreign

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/model_config.h"

namespace rlreplay::foreign {

/// Reads FOLDER/config.json, as transformers wrote it before or since version 5, and the stop ids
/// of FOLDER/generation_config.json where there is one. Errors: kUnsupported, naming what is not
/// supported; kCorrupt, naming the key; kIncomplete where there is no config.json.
[[nodiscard]] ModelConfig read_model_config(const std::string& folder);

/// The text of a config.json, and back. `where` names it in errors.
/// Errors: as read_model_config.
[[nodiscard]] std::string config_json(const ModelConfig& config);
[[nodiscard]] ModelConfig parse_model_config(std::string_view text, const std::string& where);

/// A tensor that a checkpoint of this configuration must hold.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// All tensors of a model, by their names on disk: embedding, layers, final norm, and the head
/// where it is not tied.
[[nodiscard]] std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace rlreplay::foreign

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/replay/source/model_source.h"

namespace rlreplay::replay {

/// The model that --model names: `demo`, of the seed's initial weights, or a checkpoint's folder.
/// Errors: kUsage for none, else as open_checkpoint.
std::unique_ptr<ModelSource> find_model(const std::string& name, int64_t seed);

}  // namespace rlreplay::replay

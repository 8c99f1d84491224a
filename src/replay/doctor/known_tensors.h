#pragma once

#include <optional>
#include <vector>

#include "format/foreign/checkpoint_config.h"
#include "src/replay/doctor/weight_files.h"

namespace rlreplay::replay {

/// The tensors that config.json asks for, where its model is one that is known and the weights have
/// the names of the hub.
[[nodiscard]] std::optional<std::vector<foreign::ExpectedTensor>> known_tensors(
    const WeightFiles& weights);

}  // namespace rlreplay::replay

#pragma once

#include <memory>
#include <string>

#include "src/base/json_lines.h"
#include "src/replay/model_source.h"

namespace rlreplay::replay {

/// The model that --model names. Errors: kUsage for none, else as open_checkpoint.
std::unique_ptr<ModelSource> find_model(const std::string& name);

/// The lines of a file, or of standard input for "-".
JsonLines open_lines(const std::string& path);

}  // namespace rlreplay::replay

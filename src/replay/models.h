#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/json_lines.h"
#include "src/replay/model_source.h"

namespace rlreplay::replay {

inline constexpr std::string_view kDemo = "demo";

/// The model that --model names: `demo`, of the seed's initial weights, or a checkpoint's folder.
/// Errors: kUsage for none, else as open_checkpoint.
std::unique_ptr<ModelSource> find_model(const std::string& name, int64_t seed);

/// The tokenizer of a model by the same name. Of a folder only tokenizer.json is read, which may be
/// named itself. Errors: kUsage, kIncomplete where there is none, else as Tokenizer::read.
Tokenizer open_tokenizer(const std::string& name);

/// The lines of a file, or of standard input for "-".
JsonLines open_lines(const std::string& path);

}  // namespace rlreplay::replay

#pragma once

#include <string>
#include <string_view>

#include "src/task/tokenizer.h"

namespace rlreplay {

/// The name of the built-in model, where a checkpoint's folder could stand.
inline constexpr std::string_view kDemo = "demo";

/// Errors: kUsage where no model is named.
void check_model_name(const std::string& name);

/// The tokenizer of the model that --model names: `demo`, or a checkpoint's folder, of which only
/// tokenizer.json is read; it may be named itself.
/// Errors: kUsage, kIncomplete where there is none, else as Tokenizer::read.
[[nodiscard]] Tokenizer open_tokenizer(const std::string& name);

}  // namespace rlreplay

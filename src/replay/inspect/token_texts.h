#pragma once

#include <optional>
#include <string>

#include "src/replay/record/recorded_run.h"
#include "src/task/tokenizer.h"

namespace rlreplay::replay {

/// The tokenizer of `model` (a folder with tokenizer.json, or "demo"), else that of the model that
/// a native dump was made with, where it is still there; nothing where neither is known.
/// Errors: kIncomplete for a `model` without one, else as Tokenizer::read.
[[nodiscard]] std::optional<Tokenizer> find_tokenizer(const RecordedRun& run,
                                                      const std::string& model);

/// A token's text on one line, in quotes; its id where there is no tokenizer.
[[nodiscard]] std::string token_text(const std::optional<Tokenizer>& tokenizer, int32_t id);

}  // namespace rlreplay::replay

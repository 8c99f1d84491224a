#pragma once

#include <optional>
#include <string>

#include "src/replay/inspect/mismatch.h"
#include "src/task/tokenizer.h"

namespace rlreplay::replay {

/// Tables of at most 80 columns and a histogram.
[[nodiscard]] std::string mismatch_text(const Mismatch& mismatch,
                                        const std::optional<Tokenizer>& tokenizer);

/// One line of rlreplay.mismatch/1.
[[nodiscard]] std::string mismatch_json(const Mismatch& mismatch,
                                        const std::optional<Tokenizer>& tokenizer);

}  // namespace rlreplay::replay

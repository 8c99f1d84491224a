#pragma once

#include <optional>
#include <string>

#include "format/dump_reader.h"
#include "src/replay/inspect/show_dump.h"
#include "src/task/tokenizer.h"

namespace rlreplay::replay {

/// Prompt and response of a sample as text. On a terminal, where there is a tokenizer and
/// log-probabilities, each token of the response in a colour by its log-probability, with a legend.
/// Errors: as show_dump.
std::string sample_text(const format::DumpReader& dump, const ShowOptions& options,
                        const std::optional<Tokenizer>& tokenizer);

}  // namespace rlreplay::replay

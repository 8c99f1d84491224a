#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "format/dump_reader.h"
#include "src/replay/inspect/show_dump.h"
#include "src/task/tokenizer.h"

namespace rlreplay::replay {

/// The sample `options.sample`: its values, and a line a token, as the rollout and each step of it
/// say them. Errors: kUsage where it is not there, naming those that are; FormatError.
[[nodiscard]] std::string show_sample(const format::DumpReader& dump, const ShowOptions& options);

/// Prompt and response of a sample as text. On a terminal, where there is a tokenizer and
/// log-probabilities, each token of the response in a colour by its log-probability, with a legend.
/// Errors: as show_dump.
void print_sample_text(const format::DumpReader& dump, const ShowOptions& options,
                       const std::optional<Tokenizer>& tokenizer, std::ostream& out);

}  // namespace rlreplay::replay

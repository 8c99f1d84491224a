#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/replay/options/options.h"

/// Command lines as a dump may hold them. Words are kept that are known to say how a run computes;
/// all others may be secrets and are replaced by `***` (docs/provenance.md).
namespace rlreplay::replay {

/// Whose words they are. Of a launcher's nothing is known but the program, its scripts, the options
/// that rlreplay has too and those of the recipe, with one value each.
enum class CommandOf { kRlreplay, kLauncher };

/// The words of a command line as a dump may hold them, in their order; of rlreplay's own
/// those up to `--`, behind which a launcher's follow.
[[nodiscard]] std::vector<std::string> recorded_words(std::span<const std::string> words,
                                                      CommandOf whose);

/// A value of such an option ("--model") without secrets.
[[nodiscard]] std::string recorded_value(std::string_view option, const std::string& value);

/// An option's text as it is written down, in dumps, golden files and messages: without secrets,
/// with a mark that other secrets do not have (docs/provenance.md). The same again gives the same.
[[nodiscard]] std::string recorded_text(const RunOptions& options, const Option& option);

}  // namespace rlreplay::replay

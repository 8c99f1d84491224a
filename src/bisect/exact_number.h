#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rlreplay::bisect {

/// Whether a text is a whole number of more digits than binary64 holds for certain.
bool is_long_integer(std::string_view text);

/// The number that a text is, where binary64 holds it as it is written: `0x1.8p-1`, `nan`, `inf`,
/// or a finite decimal that has the same digits when it is written with as many. Nothing for any
/// other text, which may be a digest: `1234e567`, `00e1234`, `nan(1)`.
std::optional<double> exact_number(const std::string& text);

}  // namespace rlreplay::bisect

#pragma once

#include <optional>
#include <string_view>

#include "format/foreign/bytes.h"
#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// An integer from its two's complement bytes, least significant first.
/// Errors: kCorrupt above 2048 bytes.
[[nodiscard]] Value integer_from_bytes(Tree& tree, Bytes bytes);

/// An integer from decimal digits with an optional sign.
/// Errors: kCorrupt where it is not one, or has more than 4300 digits (Python's own limit).
[[nodiscard]] Value integer_from_text(Tree& tree, std::string_view text);

/// A float as Python's repr writes it. Errors: kCorrupt.
[[nodiscard]] Value float_from_text(std::string_view text);

}  // namespace rlreplay::foreign

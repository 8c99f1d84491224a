#pragma once

#include "format/foreign/tree.h"
#include "src/base/hash.h"

namespace rlreplay::foreign {

/// A hash of all that a value says: equal where tree_difference finds nothing. Numbers count as
/// numbers, records by key, and where a tensor was stored is no part of it.
[[nodiscard]] Hash tree_hash(const Tree& tree, Value value);

}  // namespace rlreplay::foreign

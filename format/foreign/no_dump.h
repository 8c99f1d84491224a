#pragma once

#include "format/foreign/tree_check.h"

namespace rlreplay::foreign {

/// Why a file is of DumpKind::kNone: the first thing in it that a dump would have otherwise, with
/// its place, as the problem not-a-dump.
[[nodiscard]] Problem no_dump_problem(const Tree& tree, Value root);

}  // namespace rlreplay::foreign

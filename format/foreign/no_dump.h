#pragma once

#include "format/foreign/tree_check.h"

namespace rlreplay::foreign {

/// Of a file of DumpKind::kNone, what a dump would hold instead, with its place: not-a-dump.
[[nodiscard]] Problem no_dump_problem(const Tree& tree, Value root);

}  // namespace rlreplay::foreign

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// Something in a readable file that its reader must be told. The codes are pinned: they are
/// printed in JSON.
struct Problem {
  std::string code;     // "duplicate-key"
  std::string message;  // one sentence
  std::string where;
  std::optional<uint64_t> sample = {};  // of recorded values
};

/// Makes sure that the tree below `root` can be walked: no cycle, at most 1000 levels, and content
/// that, with every shared part counted as often as it is used, stays in proportion to `bytes`, the
/// size of the file. Then settles keys that occur twice in a dict or set as Python does (the last
/// value wins, at the place of the first), and reports them.
/// Errors: kUnsupported for cycles and bare storages, kCorrupt for too much depth or content.
[[nodiscard]] std::vector<Problem> check_tree(Tree& tree, Value root, size_t bytes);

}  // namespace rlreplay::foreign

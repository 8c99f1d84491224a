#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// A row that lacks keys which other rows of its list have.
struct AbsentKeys {
  size_t row = 0;
  std::string_view key;  // the first that it lacks
  size_t more = 0;       // others that it lacks
  size_t first = 0;      // the first row that has the key

  /// The key as messages say it: quoted where it is no name.
  [[nodiscard]] std::string name() const;
};

/// The rows, dicts or objects, that lack one of the `wanted` keys that any row has, in order. Keys
/// count in the order in which rows name them first.
[[nodiscard]] std::vector<AbsentKeys> absent_keys(
    const Tree& tree, const Sequence& rows, const std::function<bool(std::string_view)>& wanted);

}  // namespace rlreplay::foreign

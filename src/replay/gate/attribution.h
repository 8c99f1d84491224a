#pragma once

#include <string>
#include <string_view>

#include "src/replay/gate/golden.h"

namespace rlreplay::gate {

/// Which of the two that changed since a golden file was recorded moved its values.
enum class AttributedTo { kCode, kEnvironment, kBoth, kNotAttributed };

/// `code`, `environment`, `both`, `not attributed`.
std::string_view to_string(AttributedTo cause);

struct Attribution {
  AttributedTo cause = AttributedTo::kNotAttributed;
  std::string reason;
};

/// `recorded`: the old code there; `now`: the code of now here; `old_here`: the old code here.
[[nodiscard]] Attribution attribute(const Golden& recorded, const GoldenEntries& now,
                                    const GoldenEntries& old_here);

}  // namespace rlreplay::gate

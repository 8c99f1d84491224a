#pragma once

#include <string>
#include <string_view>

#include "src/replay/gate/golden.h"

namespace rlreplay::gate {

/// Which of the two that changed since a golden file was recorded moved its values.
enum class AttributedTo { kCode, kEnvironment, kBoth, kNotAttributed };

/// `code`, `environment`, `both`, `not attributed`.
[[nodiscard]] std::string_view to_string(AttributedTo cause);

/// Which of the two moved the values, and the sentence that says by what it is known.
struct Attribution {
  AttributedTo cause = AttributedTo::kNotAttributed;
  std::string reason;
};

/// `recorded`: what the old code gave when it was recorded; `now`: what the code of now gives here;
/// `old_here`: what the old code gives here. It is the environment where the last two are equal,
/// the code where the first and last agree within the tolerances, else both.
[[nodiscard]] Attribution attribute(const Golden& recorded, const GoldenEntries& now,
                                    const GoldenEntries& old_here);

}  // namespace rlreplay::gate

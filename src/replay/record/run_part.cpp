#include "src/replay/record/run_part.h"

#include <algorithm>
#include <string_view>

#include "src/base/error.h"

namespace rlreplay::replay {

RunPart parse_part(const std::string& part, std::span<const StepId> steps) {
  if (part.empty()) return {};
  const size_t dots = part.find("..");
  const auto first = parse_step(std::string_view(part).substr(0, dots));
  const std::string_view end =
      dots == part.npos ? std::string_view() : std::string_view(part).substr(dots + 2);
  const auto last = parse_step(end);
  if (!first || dots == part.npos || (!last && !end.empty())) {
    throw Error(ErrorCode::kCorrupt, "part is two steps, as 1.0..2.0, not \"" + part + "\"",
                "meta");
  }
  if (last) return {*first, *last};
  return {*first, steps.empty() ? *first : *std::ranges::max_element(steps)};
}

}  // namespace rlreplay::replay

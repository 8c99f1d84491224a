#include "src/replay/gate/attribution.h"

#include <algorithm>

#include "src/replay/gate/outcome.h"

namespace rlreplay::gate {
std::string_view to_string(AttributedTo cause) {
  switch (cause) {
    case AttributedTo::kCode:
      return "code";
    case AttributedTo::kEnvironment:
      return "environment";
    case AttributedTo::kBoth:
      return "both";
    case AttributedTo::kNotAttributed:
      return "not attributed";
  }
  return "";
}

Attribution attribute(const Golden& recorded, const GoldenEntries& now,
                      const GoldenEntries& old_here) {
  if (compare_golden(old_here, now).empty()) {
    return {AttributedTo::kEnvironment,
            "the recorded commit gives here what the code of now gives"};
  }
  if (std::ranges::all_of(differences(recorded.tolerances, recorded.values, old_here),
                          &JudgedDifference::within)) {
    return {AttributedTo::kCode, "the recorded commit gives here what was recorded"};
  }
  return {AttributedTo::kBoth,
          "the recorded commit gives here neither what was recorded nor what the "
          "code of now gives"};
}

}  // namespace rlreplay::gate

#include "src/replay/options/weights_policy.h"

#include <string_view>

#include "src/base/error.h"
#include "src/base/number_text.h"

namespace rlreplay::replay {

WeightsPolicy parse_weights_policy(const std::string& text) {
  if (text == "all") return {1, true};
  if (text == "first") return {0, true};
  if (text == "none") return {0, false};
  if (text.starts_with("every=")) {
    const auto every = parse_number<int64_t>(std::string_view(text).substr(6));
    if (every && *every > 0) return {*every, true};
  }
  throw Error(ErrorCode::kUsage,
              "--weights takes all, first, every=N or none, not \"" + text + "\"");
}

}  // namespace rlreplay::replay

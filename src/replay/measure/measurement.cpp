#include "src/replay/measure/measurement.h"

#include "src/base/error.h"

namespace rlreplay::measure {

std::string to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::kNone:
      return "nothing";
    case Evidence::kExitCode:
      return "an exit code only";
    case Evidence::kMetrics:
      return "metrics.json";
    case Evidence::kDump:
      return "a dump";
  }
  return "nothing";
}

std::string_view to_string(RunKind kind) {
  switch (kind) {
    case RunKind::kRan:
      return "ran";
    case RunKind::kCannotSay:
      return "cannot-say";
    case RunKind::kCrashed:
      return "crashed";
    case RunKind::kHung:
      return "hung";
    case RunKind::kBuildFailed:
      return "build-failed";
    case RunKind::kNoCheckout:
      return "no-checkout";
    case RunKind::kUnreadable:
      return "unreadable";
  }
  return "unreadable";
}

RunKind run_kind_of(std::string_view word) {
  for (int kind = 0; kind <= static_cast<int>(RunKind::kUnreadable); ++kind) {
    if (to_string(static_cast<RunKind>(kind)) == word) return static_cast<RunKind>(kind);
  }
  throw Error(ErrorCode::kCorrupt, "`" + std::string(word) + "` is no kind of measurement");
}

}  // namespace rlreplay::measure

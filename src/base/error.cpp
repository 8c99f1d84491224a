#include "src/base/error.h"

namespace rlreplay {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kIncomplete:
      return "incomplete";
    case ErrorCode::kUnsafe:
      return "refuse-unsafe";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kLimit:
      return "limit";
    case ErrorCode::kEnvironment:
      return "environment";
    case ErrorCode::kInterrupted:
      return "interrupted";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return 2;
    case ErrorCode::kCorrupt:
    case ErrorCode::kIncomplete:
    case ErrorCode::kUnsafe:
      return 3;
    case ErrorCode::kUnsupported:
    case ErrorCode::kLimit:
      return 4;
    case ErrorCode::kEnvironment:
      return 5;
    case ErrorCode::kInterrupted:
      return 130;
    case ErrorCode::kInternal:
      return 70;
  }
  return 70;
}

}  // namespace rlreplay

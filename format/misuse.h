#pragma once

#include <string>

#include "src/base/error.h"

namespace rlreplay::format {

/// The error of a caller that asked for what makes no sense.
[[nodiscard]] inline Error misuse(const std::string& message, const std::string& where) {
  return {ErrorCode::kUsage, message, where};
}

}  // namespace rlreplay::format

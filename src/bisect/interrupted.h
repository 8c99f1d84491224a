#pragma once

#include "src/base/error.h"

namespace rlreplay::bisect {

/// A signal ended the search.
inline Error interrupted() {
  return {ErrorCode::kInterrupted, "interrupted; what it had begun is removed"};
}

}  // namespace rlreplay::bisect

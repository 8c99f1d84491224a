#include "src/base/environment_error.h"

#include <cstring>
#include <utility>

namespace rlreplay {

Error environment_error(const std::string& what, std::string where, int reason) {
  return {ErrorCode::kEnvironment, what + ": " + std::strerror(reason), std::move(where)};
}

}  // namespace rlreplay

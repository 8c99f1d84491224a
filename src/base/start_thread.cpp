#include "src/base/start_thread.h"

#include <system_error>
#include <utility>

#include "src/base/error.h"

namespace rlreplay {

std::thread start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& e) {
    throw Error(ErrorCode::kEnvironment,
                "the system starts no further thread (" + e.code().message() +
                    "): use fewer (--threads), or raise the limit of processes or memory");
  }
}

}  // namespace rlreplay

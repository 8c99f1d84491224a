#pragma once

#include <functional>
#include <thread>

namespace rlreplay {

/// Errors: kEnvironment where the system gives no further thread.
std::thread start_thread(std::function<void()> work);

}  // namespace rlreplay

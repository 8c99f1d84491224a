#include "src/replay/verbs/end_on_signal.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/report_error.h"

namespace rlreplay::replay {
namespace {

/// Waits for either file; whether it was `signal`.
bool signalled(int signal, int done) {
  pollfd files[] = {{signal, POLLIN, 0}, {done, POLLIN, 0}};
  while (::poll(files, 2, -1) < 0) {
    if (errno != EINTR) return false;
  }
  return files[1].revents == 0 && files[0].revents != 0;
}

}  // namespace

EndOnSignal::EndOnSignal(bool json, std::string left, std::string where)
    : done_(::eventfd(0, EFD_CLOEXEC)) {
  if (done_ < 0) throw Error(ErrorCode::kEnvironment, "no event file could be opened");
  thread_ = std::thread([this, json, left = std::move(left), where = std::move(where)] {
    if (!signalled(interrupt_.fd(), done_)) return;
    const int code = run_reporting_errors("rlreplay", json, [&]() -> int {
      throw Error(ErrorCode::kInterrupted, "interrupted; " + left, where);
    });
    std::fflush(nullptr);
    ::_exit(code);
  });
}

EndOnSignal::~EndOnSignal() {
  const uint64_t one = 1;
  if (::write(done_, &one, sizeof one) == sizeof one) thread_.join();
  ::close(done_);
}

}  // namespace rlreplay::replay

#include "src/base/child_process.h"

#include <cerrno>

#include <signal.h>
#include <sys/wait.h>

#include "src/base/error.h"

namespace rlreplay {
namespace {

constexpr int kUnknownStatus = 127 << 8;  // exit code 127

}  // namespace

bool ChildProcess::has_ended() const {
  siginfo_t info{};
  return status_ ||
         (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == id_);
}

void ChildProcess::send(int signal) const {
  if (id_ > 0 && !status_) ::kill(leads_ ? -id_ : id_, signal);
}

std::optional<int> ChildProcess::take_status() {
  check(id_ > 0, "a process that was given up is asked for its end");
  int status = 0;
  if (!status_ && ::waitpid(id_, &status, WNOHANG) == id_) status_ = status;
  return status_;
}

int ChildProcess::wait() {
  check(id_ > 0, "a process that was given up is waited for");
  int status = 0;
  while (!status_) {
    if (::waitpid(id_, &status, 0) == id_) {
      status_ = status;
    } else if (errno != EINTR) {
      status_ = kUnknownStatus;
    }
  }
  return *status_;
}

void ChildProcess::end() {
  if (id_ <= 0 || status_) return;
  send(SIGKILL);
  static_cast<void>(wait());
}

}  // namespace rlreplay

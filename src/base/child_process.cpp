#include "src/base/child_process.h"

#include <cerrno>

#include <signal.h>
#include <sys/wait.h>

namespace rlreplay {

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
  int status = 0;
  if (!status_ && ::waitpid(id_, &status, WNOHANG) == id_) status_ = status;
  return status_;
}

int ChildProcess::wait() {
  int status = 0;
  while (!status_) {
    const pid_t got = ::waitpid(id_, &status, 0);
    if (got == id_ || errno != EINTR) status_ = status;
  }
  return *status_;
}

void ChildProcess::end() {
  if (id_ <= 0 || status_) return;
  send(SIGKILL);
  static_cast<void>(wait());
}

}  // namespace rlreplay

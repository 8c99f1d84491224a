#include "src/bisect/guardian.h"

#include <optional>
#include <set>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/descendants.h"
#include "src/base/own_program.h"

namespace rlreplay::bisect {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKillTime{5};  // what does not end by then hangs in the kernel
constexpr timespec kTick{0, 20'000'000};

/// Reaps what has ended; false where there is no child any more. The status of `main` is kept.
bool reap(pid_t main, std::optional<int>& status) {
  int ended = 0;
  pid_t id = 0;
  while ((id = ::waitpid(-1, &ended, WNOHANG)) > 0) {
    if (id == main) status = ended;
  }
  return id == 0;
}

/// Sends a signal to all that is left, until nothing is or the time is over.
bool end_all(int signal, std::chrono::seconds time, pid_t main, std::optional<int>& status) {
  const auto deadline = Clock::now() + time;
  std::set<pid_t> sent;
  while (reap(main, status)) {
    for (const pid_t id : descendants()) {
      if (sent.insert(id).second || signal == SIGKILL) ::kill(id, signal);
    }
    if (Clock::now() >= deadline) return false;
    ::nanosleep(&kTick, nullptr);
  }
  return true;
}

/// Ends as a program did that was waited for.
int end_like(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, WTERMSIG(status));
  ::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  return 128 + WTERMSIG(status);
}

}  // namespace

Command guarded_command(const std::string& text) {
  return {{own_program(), kGuardWord, "/bin/sh", "-c", text}};
}

int guard(int argc, char** argv) {
  const Command command{{argv, argv + argc}};
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (!adopt_orphans() || argc == 0) return 127;
  const pid_t main = spawn(command, {.own_group = true, .death_signal = SIGKILL});
  std::optional<int> status;
  bool told = false;
  while (!told && reap(main, status) && !status) {
    const int signal = ::sigtimedwait(&signals, nullptr, nullptr);
    told = signal > 0 && signal != SIGCHLD;
  }
  if (!end_all(SIGTERM, kGuardGrace, main, status)) end_all(SIGKILL, kKillTime, main, status);
  return status ? end_like(*status) : 128 + SIGKILL;
}

}  // namespace rlreplay::bisect

#include "src/bisect/guardian.h"

#include <optional>
#include <set>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/child_process.h"
#include "src/base/descendants.h"
#include "src/base/own_program.h"

namespace rlreplay::bisect {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKillTime{5};  // what does not end by then hangs in the kernel
constexpr timespec kTick{0, 20'000'000}, kKillTick{0, 1'000'000};

/// Reaps what has ended; false where there is no child any more. The status of `main` is kept.
bool reap(ChildProcess& main, std::optional<int>& status) {
  int ended = 0;
  pid_t id = 0;
  while ((id = ::waitpid(-1, &ended, WNOHANG)) > 0) {
    if (id != main.id()) continue;
    status = ended;
    main.release();
  }
  return id == 0;
}

/// Sends a signal to all descendants that are there now; whether there is one to which none was
/// sent before. The next call sees to whom this one could not list.
bool signal_all(int signal, std::set<pid_t>& sent) noexcept {
  bool found = false;
  try {
    for (const pid_t id : descendants()) {
      const bool is_new = sent.insert(id).second;
      if (is_new || signal == SIGKILL) ::kill(id, signal);
      found = found || is_new;
    }
  } catch (...) {  // no memory for the list: the next call makes it again
  }
  return found;
}

/// Sends a signal to all that is left, until nothing is or the time is over. Of SIGKILL the time
/// begins again with each process that has begun meanwhile: only what does not end of it may stay.
bool end_all(int signal, std::chrono::seconds time, ChildProcess& main,
             std::optional<int>& status) {
  auto deadline = Clock::now() + time;
  std::set<pid_t> sent;
  while (reap(main, status)) {
    if (signal_all(signal, sent) && signal == SIGKILL) deadline = Clock::now() + time;
    if (Clock::now() >= deadline) return false;
    ::nanosleep(signal == SIGKILL ? &kKillTick : &kTick, nullptr);
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
  ChildProcess main(command, {.own_group = true, .death_signal = SIGKILL});
  std::optional<int> status;
  bool told = false;
  while (!told && reap(main, status) && !status) {
    const int signal = ::sigtimedwait(&signals, nullptr, nullptr);
    told = signal > 0 && signal != SIGCHLD;
  }
  if (!end_all(SIGTERM, kGuardGrace, main, status)) end_all(SIGKILL, kKillTime, main, status);
  main.release();  // what is left then hangs in the kernel: nobody waits for it
  return status ? end_like(*status) : 128 + SIGKILL;
}

}  // namespace rlreplay::bisect

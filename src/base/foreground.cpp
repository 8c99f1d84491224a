#include "src/base/foreground.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/child_process.h"
#include "src/base/descendants.h"
#include "src/base/descriptor.h"
#include "src/base/environment_error.h"
#include "src/base/interrupt.h"
#include "src/base/process.h"

namespace rlreplay {
namespace {

/// Sends a signal to all descendants.
void signal_descendants(int signal) {
  for (const pid_t id : descendants()) ::kill(id, signal);
}

/// A terminal sends Ctrl-C to all of its foreground group; whoever sends one with kill means us.
bool has_got(int signal) { return signal == SIGINT && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

/// Waits for the end; hands the first signal on to all that was started, and a second one's answer
/// is SIGKILL. Whether there was one.
bool wait_for(pid_t id, const Interrupt& interrupt) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, id, 0)));
  if (!process) return false;  // the owner waits then
  bool interrupted = false;
  while (true) {
    pollfd files[] = {{process.get(), POLLIN, 0}, {interrupt.fd(), POLLIN, 0}};
    if (::poll(files, 2, -1) < 0 && errno != EINTR) break;
    if (files[1].revents != 0) {
      const int signal = interrupt.take();
      if (interrupted) {
        signal_descendants(SIGKILL);
      } else if (!has_got(signal)) {
        signal_descendants(signal);
      }
      interrupted = true;
    }
    if (files[0].revents != 0) break;
  }
  return interrupted;
}

void reap_orphans() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

/// Gives what the program has left running after an interrupt a moment, then kills it.
void end_what_is_left() {
  constexpr timespec kMoment{0, 50'000'000};
  for (int tries = 0; tries < 100 && !descendants().empty(); ++tries) {
    reap_orphans();
    ::nanosleep(&kMoment, nullptr);
  }
  signal_descendants(SIGKILL);
  reap_orphans();
}

}  // namespace

std::string ForegroundEnd::describe() const {
  if (!killed) return "exit code " + std::to_string(code);
  return "signal " + std::to_string(code) + " (" + ::strsignal(code) + ")";
}

ForegroundEnd run_in_foreground(const Command& command) {
  const Interrupt interrupt;
  if (!adopt_orphans()) {
    throw environment_error(
        "this process cannot become the parent of what the command leaves behind");
  }
  // In this process, not in the child: a dump records the environment of the process that
  // writes it.
  for (const auto& [name, value] : command.environment) {
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  ChildProcess child(command, {.death_signal = SIGTERM});
  ForegroundEnd out;
  out.interrupted = wait_for(child.id(), interrupt);
  const int status = child.wait();
  out.interrupted = out.interrupted || interrupt.signal() != 0;
  if (out.interrupted) end_what_is_left();
  out.killed = WIFSIGNALED(status);
  out.code = out.killed ? WTERMSIG(status) : WEXITSTATUS(status);
  return out;
}

}  // namespace rlreplay

#include "src/base/foreground.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/interrupt.h"

namespace rlreplay {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

pid_t start(const Command& command) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> arguments = command.arguments;
  for (const auto& [name, value] : command.environment) {
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  pid_t id = -1;
  const int status = ::posix_spawnp(&id, arguments.at(0).c_str(), nullptr, &attributes,
                                    pointers(arguments).data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (status == 0) return id;
  throw Error(ErrorCode::kEnvironment,
              "cannot start the command: " + std::string(std::strerror(status)),
              command.arguments[0]);
}

/// A terminal sends Ctrl-C to all of its foreground group; whoever sends one with kill means us.
bool has_got(int signal) { return signal == SIGINT && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

/// Waits for the end; hands the first signal on.
bool wait_for(pid_t id, const Interrupt& interrupt) {
  const auto process = static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
  if (process < 0) return false;  // waitpid waits then
  bool interrupted = false;
  while (true) {
    pollfd files[] = {{process, POLLIN, 0}, {interrupt.fd(), POLLIN, 0}};
    const nfds_t watched = interrupted ? 1 : 2;
    if (::poll(files, watched, -1) < 0 && errno != EINTR) break;
    if (!interrupted && files[1].revents != 0) {
      interrupted = true;
      if (!has_got(interrupt.signal())) ::kill(id, interrupt.signal());
    }
    if (files[0].revents != 0) break;
  }
  ::close(process);
  return interrupted;
}

}  // namespace

std::string ForegroundEnd::describe() const {
  if (!killed) return "exit code " + std::to_string(code);
  return "signal " + std::to_string(code) + " (" + ::strsignal(code) + ")";
}

ForegroundEnd run_in_foreground(const Command& command) {
  const Interrupt interrupt;
  const pid_t id = start(command);
  ForegroundEnd out;
  out.interrupted = wait_for(id, interrupt);
  int status = 0;
  while (::waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  out.interrupted = out.interrupted || interrupt.signal() != 0;
  out.killed = WIFSIGNALED(status);
  out.code = out.killed ? WTERMSIG(status) : WEXITSTATUS(status);
  return out;
}

}  // namespace rlreplay

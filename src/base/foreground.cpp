#include "src/base/foreground.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/interrupt.h"
#include "src/base/number_text.h"
#include "src/base/process.h"

namespace rlreplay {
namespace {

namespace fs = std::filesystem;

/// The parent of a process that is no zombie; 0 where there is none.
pid_t parent_of(const std::string& id) {
  std::ifstream file("/proc/" + id + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // of a name that may hold anything
  if (name_end == text.npos || text.size() < name_end + 5 || text[name_end + 2] == 'Z') return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

/// The processes that this one has started, and they in turn, as they are now; those too whose
/// parents have ended, once `adopt_orphans` was called before.
std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    const auto id = parse_number<pid_t>(name);
    if (!id) continue;
    if (const pid_t parent = parent_of(name); parent > 0) children.emplace(parent, *id);
  }
  std::vector<pid_t> out;
  const auto add = [&](pid_t parent) {
    const auto [begin, end] = children.equal_range(parent);
    for (auto it = begin; it != end; ++it) out.push_back(it->second);
  };
  add(::getpid());
  for (size_t i = 0; i < out.size(); ++i) add(out[i]);
  return out;
}

/// Makes this process the parent of descendants whose own has ended.
void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

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
  if (!process) return false;  // waitpid waits then
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

/// After an interrupt: what the program has left running gets a moment, then it is killed.
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
  adopt_orphans();
  for (const auto& [name, value] :
       command.environment) {  // what is recorded of it is this process's
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  const pid_t id = spawn(command, {.death_signal = SIGTERM});
  ForegroundEnd out;
  out.interrupted = wait_for(id, interrupt);
  int status = 0;
  while (::waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  out.interrupted = out.interrupted || interrupt.signal() != 0;
  if (out.interrupted) end_what_is_left();
  out.killed = WIFSIGNALED(status);
  out.code = out.killed ? WTERMSIG(status) : WEXITSTATUS(status);
  return out;
}

}  // namespace rlreplay

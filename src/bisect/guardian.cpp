#include "src/bisect/guardian.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKillTime{5};  // what does not end by then hangs in the kernel
constexpr timespec kTick{0, 20'000'000};

/// The parent of a process; 0 where it has ended.
pid_t parent_of(const fs::path& process) {
  std::ifstream file(process / "stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name = text.rfind(") ");  // a name may hold anything
  if (name == text.npos || name + 4 >= text.size()) return 0;
  pid_t parent = 0;
  std::from_chars(text.data() + name + 4, text.data() + text.size(), parent);
  return parent;
}

/// All processes that this one has brought about: who loses its parent becomes its child.
std::set<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    pid_t id = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), id);
    if (read.ec == std::errc() && read.ptr == name.data() + name.size()) {
      children.emplace(parent_of(entry.path()), id);
    }
  }
  std::set<pid_t> out;
  std::vector<pid_t> open = {::getpid()};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (auto [at, end] = children.equal_range(parent); at != end; ++at) {
      if (out.insert(at->second).second) open.push_back(at->second);
    }
  }
  return out;
}

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
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  if (failed) throw Error(ErrorCode::kEnvironment, "cannot find this program", "/proc/self/exe");
  return {{self, kGuardWord, "/bin/sh", "-c", text}};
}

int guard(int argc, char** argv) {
  const Command command{{argv, argv + argc}};
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || argc == 0) return 127;
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

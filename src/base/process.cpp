#include "src/base/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"

extern char** environ;

namespace rlreplay {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kErrorTail = 4096;
constexpr int kPollMs = 20;  // how soon an end is noticed that closes no pipe

Error environment_error(const char* what, int code) {
  return Error(ErrorCode::kEnvironment, std::string(what) + ": " + std::strerror(code));
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Pipe() {
    std::array<int, 2> fds;
    if (::pipe2(fds.data(), O_CLOEXEC) != 0) throw environment_error("cannot make a pipe", errno);
    read = Descriptor(fds[0]);
    write = Descriptor(fds[1]);
  }
  Descriptor read, write;
};

void set_nonblocking(const Descriptor& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

/// Keeps SIGPIPE from this thread, and takes back one that a write has raised.
class PipeSignalGuard {
 public:
  PipeSignalGuard() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
  }
  ~PipeSignalGuard() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  PipeSignalGuard(const PipeSignalGuard&) = delete;
  PipeSignalGuard& operator=(const PipeSignalGuard&) = delete;

 private:
  sigset_t pipe_, old_;
  bool was_pending_ = false;
};

/// A shell command that leads a process group of its own; killed and reaped at the end.
class Child {
 public:
  Child(const std::string& command, const Pipe& in, const Pipe& out, const Pipe& err) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, in.read.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
    sigset_t none, pipe;
    sigemptyset(&none);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &pipe);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::string shell = "sh", option = "-c", text = command;
    std::array<char*, 4> arguments = {shell.data(), option.data(), text.data(), nullptr};
    const int status =
        ::posix_spawn(&id_, "/bin/sh", &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (status != 0) throw environment_error("cannot start a shell", status);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == id_;
  }

  void kill_group() const { ::kill(-id_, SIGKILL); }

  /// Kills what is left of the group and returns the wait status. The child is reaped last, so that
  /// its id cannot belong to somebody else when the group is killed.
  int end() {
    if (id_ > 0) {
      kill_group();
      while (::waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
      }
      id_ = -1;
    }
    return status_;
  }

 private:
  pid_t id_ = -1;
  int status_ = 0;
};

/// Writes what the pipe takes. Closes it at the end of the input or when nobody reads any more.
void write_some(Descriptor& to, std::string_view& input) {
  while (!input.empty()) {
    const ssize_t count = ::write(to.get(), input.data(), input.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) break;
    input.remove_prefix(static_cast<size_t>(count));
  }
  to.close();
}

/// Reads one block; closes the pipe at its end.
void read_some(Descriptor& from, std::string& text) {
  std::array<char, 1 << 16> block;
  const ssize_t count = ::read(from.get(), block.data(), block.size());
  if (count > 0) {
    text.append(block.data(), static_cast<size_t>(count));
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    from.close();
  }
}

struct Streams {
  Descriptor in, out, err;
  std::string_view input;
};

/// Moves bytes until the child has ended and its pipes are drained, or a limit is reached.
ProcessResult::End exchange(Streams& s, Child& child, const ProcessLimits& limits,
                            ProcessResult& result) {
  const auto deadline = Clock::now() + limits.time;
  bool ended = false;
  while (!ended || s.out.get() >= 0 || s.err.get() >= 0) {
    if (!ended && (ended = child.has_ended())) {
      child.kill_group();  // what it left behind would hold the pipes open
      s.in.close();
    }
    std::array<pollfd, 3> fds = {pollfd{s.in.get(), POLLOUT, 0}, pollfd{s.out.get(), POLLIN, 0},
                                 pollfd{s.err.get(), POLLIN, 0}};
    const bool closed = s.out.get() < 0 && s.err.get() < 0;
    ::poll(fds.data(), fds.size(), closed ? 1 : kPollMs);
    if (fds[0].revents != 0) write_some(s.in, s.input);
    if (fds[1].revents != 0) read_some(s.out, result.output);
    if (fds[2].revents != 0) read_some(s.err, result.error_tail);
    if (result.error_tail.size() > 2 * kErrorTail) {
      result.error_tail.erase(0, result.error_tail.size() - kErrorTail);
    }
    if (result.output.size() > limits.max_output) return ProcessResult::End::kTooMuchOutput;
    if (Clock::now() >= deadline) return ProcessResult::End::kTimeout;
  }
  return ProcessResult::End::kExit;
}

}  // namespace

std::string ProcessResult::describe() const {
  std::string text;
  switch (end) {
    case End::kExit:
      text = "exited with code " + std::to_string(code);
      break;
    case End::kSignal:
      text = "was ended by signal " + std::to_string(code);
      break;
    case End::kTimeout:
      text = "was stopped: it took longer than its time limit";
      break;
    case End::kTooMuchOutput:
      text = "was stopped: it wrote more than it may";
      break;
  }
  std::string last =
      error_tail.substr(error_tail.size() - std::min<size_t>(error_tail.size(), 300));
  for (char& c : last) {
    if (c == '\n' || c == '\t') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  last.erase(last.find_last_not_of(' ') + 1);
  return last.empty() ? text : text + ": " + last;
}

ProcessResult run_process(const std::string& command, std::string_view input,
                          const ProcessLimits& limits) {
  const PipeSignalGuard guard;
  Pipe in, out, err;
  Child child(command, in, out, err);
  Streams streams{std::move(in.write), std::move(out.read), std::move(err.read), input};
  in.read.close();
  out.write.close();
  err.write.close();
  for (const auto* fd : {&streams.in, &streams.out, &streams.err}) set_nonblocking(*fd);
  if (input.empty()) streams.in.close();
  ProcessResult result;
  result.end = exchange(streams, child, limits, result);
  const int status = child.end();
  if (result.end != ProcessResult::End::kExit) return result;
  if (WIFSIGNALED(status)) result.end = ProcessResult::End::kSignal;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace rlreplay

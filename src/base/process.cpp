#include "src/base/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/bounded_log.h"
#include "src/base/child_process.h"
#include "src/base/descriptor.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/pipe.h"
#include "src/base/unfinished.h"

extern char** environ;

namespace rlreplay {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kErrorTail = 4096;
constexpr size_t kLogTail = size_t{1} << 20;  // that much of its end a bounded log keeps
constexpr int kPollMs = 20;                   // how soon an end is noticed that closes no pipe

/// A log's writing end: what is written to two of them stays in the order of the writes.
Pipe open_log(const std::string& path) {
  Descriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log) {
    throw environment_error("cannot write a command's log", path);
  }
  return {Descriptor(), std::move(log)};
}

std::string tail_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<size_t>(std::max<std::streamoff>(0, file.tellg()));
  std::string tail(std::min(size, kLogTail), '\0');
  file.seekg(static_cast<std::streamoff>(size - tail.size()));
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  return tail;
}

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

/// A program that leads a process group of its own, asked to end before it is killed and reaped.
class Child {
 public:
  Child(const Command& command, const Descriptor& in, const Descriptor& out, const Descriptor& err,
        std::chrono::milliseconds grace)
      : grace_(grace) {
    const int signal = grace.count() > 0 ? SIGTERM : SIGKILL;
    unfinished_.emplace(
        [this, signal] { process_->send(signal); },
        [&] {
          process_.emplace(command, SpawnOptions{{in.get(), out.get(), err.get()}, true, signal});
        });
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool has_ended() const { return process_->has_ended(); }

  void kill_group() const { process_->send(SIGKILL); }

  /// Kills what is left of the group and returns the wait status. The child is reaped last, so that
  /// its id cannot belong to somebody else when the group is killed.
  int end() {
    if (unfinished_) {
      if (grace_.count() > 0) ask_to_end();
      kill_group();
      unfinished_.reset();
    }
    return process_->wait();
  }

 private:
  void ask_to_end() const {
    const auto deadline = Clock::now() + grace_;
    ::kill(process_->id(), SIGTERM);
    while (!has_ended() && Clock::now() < deadline) ::poll(nullptr, 0, kPollMs);
  }

  std::chrono::milliseconds grace_;
  std::optional<ChildProcess> process_;
  std::optional<Unfinished> unfinished_;
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

/// Reads one block, and says whether there was one; closes the pipe at its end.
bool read_some(Descriptor& from, std::string& text) {
  std::array<char, 1 << 16> block;
  const ssize_t count = ::read(from.get(), block.data(), block.size());
  if (count > 0) {
    text.append(block.data(), static_cast<size_t>(count));
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    from.close();
  }
  return count > 0;
}

/// Reads what is in a pipe, and waits for no end: who left the group may hold it open for long.
void drain(Descriptor& from, std::string& text, size_t most) {
  while (from.get() >= 0 && text.size() <= most && read_some(from, text)) {
  }
  from.close();
}

struct Streams {
  Descriptor in, out, err;
  std::string_view input;
  BoundedLog log;
};

/// Moves bytes until the child has ended, with all that it wrote, or a limit is reached.
ProcessResult::End exchange(Streams& s, Child& child, const ProcessLimits& limits,
                            ProcessResult& result) {
  const auto deadline = Clock::now() + limits.time;
  const bool has_pipes = s.out.get() >= 0;
  while (true) {
    const bool ended = child.has_ended();
    if (ended) {
      child.kill_group();
      drain(s.out, result.output, limits.max_output);
      drain(s.err, result.error_tail, result.error_tail.size() + (size_t{1} << 20));
    }
    std::array<pollfd, 4> fds = {pollfd{s.in.get(), POLLOUT, 0}, pollfd{s.out.get(), POLLIN, 0},
                                 pollfd{s.err.get(), POLLIN, 0}, pollfd{limits.stop_fd, POLLIN, 0}};
    if (result.output.size() > limits.max_output) return ProcessResult::End::kTooMuchOutput;
    if (ended) return ProcessResult::End::kExit;
    const bool closed = has_pipes && s.out.get() < 0 && s.err.get() < 0;
    ::poll(fds.data(), fds.size(), closed ? 1 : kPollMs);
    s.log.free_middle();
    if (fds[0].revents != 0) write_some(s.in, s.input);
    if (fds[1].revents != 0) read_some(s.out, result.output);
    if (fds[2].revents != 0) read_some(s.err, result.error_tail);
    if (result.error_tail.size() > 2 * kErrorTail) {
      result.error_tail.erase(0, result.error_tail.size() - kErrorTail);
    }
    if (fds[3].revents != 0) return ProcessResult::End::kStopped;
    if (Clock::now() >= deadline) return ProcessResult::End::kTimeout;
  }
}

/// `one | two`: the last lines that hold something, in printable characters.
std::string last_lines(const std::string& tail) {
  constexpr size_t kMost = 300;
  std::istringstream lines(tail.substr(tail.size() - std::min(tail.size(), kMost)));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    for (char& c : line) {
      if (c == '\t' || c == '\r') c = ' ';
      if (c < ' ' || c > '~') c = '?';
    }
    const size_t begin = line.find_first_not_of(' ');
    if (begin == line.npos) continue;
    line.erase(line.find_last_not_of(' ') + 1);
    text += (text.empty() ? "" : " | ") + line.substr(begin);
  }
  return text;
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
    case End::kStopped:
      text = "was stopped by the user";
      break;
  }
  const std::string last = last_lines(error_tail);
  return last.empty() ? text : text + ": " + last;
}

Command shell_command(std::string text) { return {{"/bin/sh", "-c", std::move(text)}}; }

ProcessResult run_process(const Command& command, std::string_view input,
                          const ProcessLimits& limits) {
  check(!command.arguments.empty(), "a command has no program");
  const PipeSignalGuard guard;
  const auto sink = [&] { return command.log.empty() ? make_pipe() : open_log(command.log); };
  Pipe in = make_pipe(), out = sink(), err = sink();
  Child child(command, in.read, out.write, err.write, limits.grace);
  Streams streams{std::move(in.write), std::move(out.read), std::move(err.read), input,
                  command.log.empty() ? BoundedLog() : BoundedLog(command.log)};
  for (auto* fd : {&in.read, &out.write, &err.write}) fd->close();
  for (const auto* fd : {&streams.in, &streams.out, &streams.err}) set_nonblocking(*fd);
  if (input.empty()) streams.in.close();
  ProcessResult result;
  result.end = exchange(streams, child, limits, result);
  const int status = child.end();
  streams.log.cut_middle();
  if (!command.log.empty()) result.error_tail = tail_of(command.log);
  if (result.end != ProcessResult::End::kExit) return result;
  if (WIFSIGNALED(status)) result.end = ProcessResult::End::kSignal;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

namespace {

/// This process's environment with the changes of a command.
std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto is_it = [&](const auto& change) {
      return text.size() > change.first.size() && text.starts_with(change.first) &&
             text[change.first.size()] == '=';
    };
    if (std::none_of(command.environment.begin(), command.environment.end(), is_it)) {
      variables.emplace_back(text);
    }
  }
  for (const auto& [name, value] : command.environment) {
    if (value) variables.push_back(name + "=" + *value);
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// All that the child needs, made before it is.
struct Plan {
  char* const* arguments;
  char* const* variables;
  const char* folder;
  SpawnOptions options;
  pid_t parent;
  sigset_t no_signals;
  volatile int error = 0;  // of the child, which runs in this process's memory until its program
};

bool set_stream(int from, int as) {
  if (from < 0) return true;
  return from == as ? ::fcntl(as, F_SETFD, 0) == 0 : ::dup2(from, as) == as;
}

/// The child, until its program takes over: system calls only.
[[noreturn]] void become(Plan& plan) {
  const SpawnOptions& options = plan.options;
  bool ready = !options.own_group || ::setpgid(0, 0) == 0;
  if (options.death_signal != 0) {
    ready = ready && ::prctl(PR_SET_PDEATHSIG, options.death_signal) == 0;
    if (::getppid() != plan.parent) ::_exit(127);  // it has ended before it was asked
  }
  for (int i = 0; i < 3; ++i)
    ready = ready && set_stream(options.streams[static_cast<size_t>(i)], i);
  if (*plan.folder != '\0') ready = ready && ::chdir(plan.folder) == 0;
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGCHLD}) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &plan.no_signals, nullptr);
  if (ready) ::execvpe(plan.arguments[0], plan.arguments, plan.variables);
  plan.error = errno;
  ::_exit(127);
}

/// Whoever started this program may have SIGCHLD ignored: the kernel would drop how children end.
void keep_ends() {
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) {
    ::signal(SIGCHLD, SIG_DFL);
  }
}

/// Keeps all signals from this thread.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t old_;
};

/// No page is copied: a process that fills its machine can still start a program.
[[gnu::noinline]] pid_t start(Plan& plan) {
  const pid_t id = ::vfork();
  if (id == 0) become(plan);
  return id;
}

}  // namespace

pid_t spawn(const Command& command, const SpawnOptions& options) {
  keep_ends();
  std::vector<std::string> arguments = command.arguments, variables = environment_of(command);
  const std::vector<char*> argument_list = pointers(arguments), variable_list = pointers(variables);
  Plan plan{argument_list.data(),
            variable_list.data(),
            command.folder.c_str(),
            options,
            ::getpid(),
            {},
            0};
  sigemptyset(&plan.no_signals);
  const auto [id, reason] = [&] {
    const AllSignalsBlocked guard;  // the child has this process's memory, and must answer none
    const pid_t started = start(plan);
    return std::pair(started, started < 0 ? errno : plan.error);
  }();
  if (reason == 0) return id;
  if (id > 0) ::waitpid(id, nullptr, 0);
  throw environment_error("cannot start " + command.arguments[0], command.folder, reason);
}

}  // namespace rlreplay

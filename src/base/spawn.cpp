#include "src/base/spawn.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"

extern char** environ;

namespace rlreplay {
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
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &plan.no_signals, nullptr);
  if (ready) ::execvpe(plan.arguments[0], plan.arguments, plan.variables);
  plan.error = errno;
  ::_exit(127);
}

/// No page is copied: a process that fills its machine can still start a program.
[[gnu::noinline]] pid_t start(Plan& plan) {
  const pid_t id = ::vfork();
  if (id == 0) become(plan);
  return id;
}

}  // namespace

pid_t spawn(const Command& command, const SpawnOptions& options) {
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
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const pid_t id = start(plan);
  const int reason = id < 0 ? errno : plan.error;
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (reason == 0) return id;
  if (id > 0) ::waitpid(id, nullptr, 0);
  throw Error(ErrorCode::kEnvironment,
              "cannot start " + command.arguments[0] + ": " + std::strerror(reason),
              command.folder);
}

}  // namespace rlreplay

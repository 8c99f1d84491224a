#include "src/base/run_git.h"

namespace rlreplay {

ProcessResult run_git(const std::string& folder, const std::vector<std::string>& arguments,
                      const ProcessLimits& limits) {
  Command command{{"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}, folder};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  clear_git_variables(command);
  command.environment.emplace_back("LC_ALL", "C");
  // A question on the terminal would stop a process of the background for good.
  command.environment.emplace_back("GIT_TERMINAL_PROMPT", "0");
  command.environment.emplace_back("GIT_ASKPASS", "true");
  command.environment.emplace_back("SSH_ASKPASS", "true");
  command.environment.emplace_back("SSH_ASKPASS_REQUIRE",
                                   "force");  // also where there is a terminal
  return run_process(command, "", limits);
}

void clear_git_variables(Command& command) {
  for (const char* name :
       {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_NAMESPACE", "GIT_PREFIX"}) {
    command.environment.emplace_back(name, std::nullopt);
  }
}

}  // namespace rlreplay

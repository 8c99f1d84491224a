#pragma once

#include <string>
#include <vector>

#include "src/base/process.h"

namespace rlreplay {

/// Runs git in a folder, without a shell: neither hooks nor a monitor of the repository run,
/// nothing is asked on the terminal, and its messages are in English.
[[nodiscard]] ProcessResult run_git(const std::string& folder,
                                    const std::vector<std::string>& arguments,
                                    const ProcessLimits& limits = {});

/// Takes the variables from a command by which git is told of a repository other than that of its
/// folder: what runs in a worktree must not inherit them.
void clear_git_variables(Command& command);

}  // namespace rlreplay

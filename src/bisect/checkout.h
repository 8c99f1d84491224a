#pragma once

#include <set>
#include <string>

#include "src/bisect/git.h"

namespace rlreplay::bisect {

/// A commit of a submodule, and a clone that has it.
struct Submodule {
  std::string path = {}, id = {}, clone = {};
};

/// Checks the submodules of a worktree out, those inside of them too, from the clones that the user
/// has of them: nothing is fetched. `instead`, where it names a path, is another commit of that
/// submodule, from another clone. Returns the paths that stay empty, for want of a clone.
/// Errors: kEnvironment where a clone lacks the commit.
[[nodiscard]] std::set<std::string> fill_submodules(const Repository& repository,
                                                    const std::string& worktree,
                                                    const Submodule& instead = {});

/// Copies all files and links below a folder to the same places of a checkout, in the place of what
/// is there. Nothing outside of the checkout is written.
/// Errors: kEnvironment.
void lay_over(const std::string& overlay, const std::string& checkout);

/// Names what lies in a folder: paths, contents and which files can be executed.
/// Errors: kIncomplete where there is no such folder; kUnsupported where something in it is no
/// file, folder or link.
[[nodiscard]] std::string digest_of_folder(const std::string& folder);

}  // namespace rlreplay::bisect

#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rlreplay::gate {

/// What git says in a folder, without its line's end; nothing where it fails. No hook is run.
[[nodiscard]] std::optional<std::string> ask_git(const std::string& folder,
                                                 const std::vector<std::string>& arguments);

/// The checkout of git that a file lies in.
struct Checkout {
  std::string commit;   // its hash; empty: there is none yet
  std::string changed;  // a tracked file that is not as committed, golden files apart; empty: none
  std::string unknown;  // code that git neither tracks nor ignores, which the run may use; likewise
};

/// The checkout that a file lies in; nothing where it lies in none, or where there is no git.
/// `commands`: what is run and how it is built; of none no code is unknown.
[[nodiscard]] std::optional<Checkout> find_checkout(const std::string& path,
                                                    const std::string& commands = {});

/// Where in the checkout that a folder lies in the working folder is, `.` at its top; nothing where
/// it is not in it.
[[nodiscard]] std::optional<std::string> working_folder(const std::string& folder);

/// "PATH is not as committed", "PATH is not in git"; empty: all is committed.
[[nodiscard]] std::string uncommitted(const Checkout& checkout);

}  // namespace rlreplay::gate

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
};

/// The checkout that a file lies in; nothing where it lies in none, or where there is no git.
[[nodiscard]] std::optional<Checkout> find_checkout(const std::string& path);

}  // namespace rlreplay::gate

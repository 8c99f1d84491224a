#pragma once

#include <optional>
#include <string>

namespace rlreplay::gate {

/// The checkout of git that a file lies in.
struct Checkout {
  std::string commit;   // its hash; empty: there is none yet
  std::string changed;  // a tracked file that is not as committed, golden files apart; empty: none
};

/// Nothing where the file lies in no checkout, or where there is no git.
[[nodiscard]] std::optional<Checkout> find_checkout(const std::string& path);

}  // namespace rlreplay::gate

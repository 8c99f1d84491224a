#include "src/bisect/uncommitted.h"

#include <cstdio>
#include <sstream>

#include "src/base/error.h"
#include "src/base/terminal.h"
#include "src/base/words.h"

namespace rlreplay::bisect {
namespace {

struct CheckoutState {
  std::string commit;
  size_t changed = 0;
  std::string first;  // as git prints it
};

/// Source: git-status(1), porcelain format version 2. Without locks the index stays as it is.
CheckoutState state_of_checkout(const Repository& repository) {
  const std::string listing = repository.ask(
      repository.folder(), {"--no-optional-locks", "status", "--porcelain=v2", "--branch",
                            "--untracked-files=no", "--ignore-submodules=dirty", "--no-renames"});
  constexpr std::string_view kCommit = "# branch.oid ";
  CheckoutState out;
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kCommit)) out.commit = line.substr(kCommit.size());
    if (line.starts_with('#')) continue;
    // The path stands behind eight fields, of one that is unmerged behind ten.
    size_t path = 0;
    for (int field = line.starts_with('u') ? 10 : 8; field > 0; --field) {
      path = line.find(' ', path) + 1;
    }
    if (out.changed++ == 0) out.first = line.substr(path);
  }
  return out;
}

}  // namespace

void warn_of_uncommitted(const Repository& repository, const std::vector<Revision>& history) {
  CheckoutState state;
  try {
    state = state_of_checkout(repository);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnvironment) throw;
    return;  // no checkout
  }
  const bool is_end = state.commit == history.front().id || state.commit == history.back().id;
  if (state.changed == 0 || !is_end) return;
  std::fprintf(stderr,
               "rlbisect: %s of the checkout, such as %s, %s changes that are not committed: no "
               "revision has them, and none is run with them\n",
               counted(state.changed, "file").c_str(), terminal_text(state.first).c_str(),
               state.changed == 1 ? "has" : "have");
}

}  // namespace rlreplay::bisect

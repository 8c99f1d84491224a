#include "src/bisect/worktree.h"

#include <cstdio>
#include <utility>

#include "src/base/error.h"
#include "src/base/terminal_text.h"
#include "src/bisect/folder.h"

namespace rlreplay::bisect {

Worktree::Worktree(const Repository& repository, const Revision& revision, std::string path)
    : repository_(repository), path_(std::move(path)) {
  try {
    repository_.add_worktree(path_, revision);
  } catch (...) {
    remove();
    throw;
  }
}

Worktree::~Worktree() { remove(); }

void Worktree::remove() noexcept {
  remove_folder(path_);
  try {
    repository_.forget_worktree(path_);
  } catch (const Error& error) {
    std::fprintf(stderr, "rlbisect: %s: %s\n", terminal_text(error.where()).c_str(),
                 terminal_text(error.what()).c_str());
  }
}

}  // namespace rlreplay::bisect

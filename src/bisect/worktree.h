#pragma once

#include <string>

#include "src/bisect/git.h"

namespace rlreplay::bisect {

/// A fresh checkout of one revision; gone at the end, with all that was built in it.
class Worktree {
 public:
  /// Errors: kEnvironment.
  Worktree(const Repository& repository, const Revision& revision, std::string path);
  ~Worktree();
  Worktree(const Worktree&) = delete;
  Worktree& operator=(const Worktree&) = delete;

  const std::string& path() const { return path_; }

 private:
  void remove() noexcept;

  const Repository& repository_;
  std::string path_;
};

}  // namespace rlreplay::bisect

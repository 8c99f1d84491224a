#pragma once

#include <string>
#include <vector>

namespace rlreplay::bisect {

/// A commit.
struct Revision {
  std::string id;      // its hash
  std::string tree;    // the hash of its content
  std::string parent;  // the hash of its first parent; empty for a root
  std::string author, date, subject;

  std::string short_id() const { return id.substr(0, 12); }
};

/// A git repository, whose checkout is never touched. Each call runs git, without a shell.
/// Errors: kUsage for names that git does not know, kEnvironment when git itself fails.
class Repository {
 public:
  /// `folder`: the repository, or any folder in its checkout.
  static Repository open(const std::string& folder);

  Revision resolve(const std::string& name) const;

  /// `good`, then each next commit along first parents up to `bad`.
  /// Errors: kUsage unless `good` lies on the first-parent history of `bad`.
  std::vector<Revision> history(const Revision& good, const Revision& bad) const;

  /// Checks a revision out in a new folder; hooks of the repository do not run.
  void add_worktree(const std::string& path, const Revision& revision) const;
  /// Forgets a worktree whose folder is gone.
  void forget_worktree(const std::string& path) const;

  const std::string& folder() const { return folder_; }

 private:
  explicit Repository(std::string folder) : folder_(std::move(folder)) {}
  std::vector<Revision> log(std::vector<std::string> arguments) const;

  std::string folder_;
};

/// The variables by which git is told of a repository other than that of its folder: a command that
/// runs in a worktree must not inherit them.
const std::vector<std::string>& git_variables();

}  // namespace rlreplay::bisect

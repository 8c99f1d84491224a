#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/process.h"

namespace rlreplay::bisect {

/// A commit.
struct Revision {
  std::string id = {};      // its hash
  std::string tree = {};    // the hash of its content
  std::string parent = {};  // the hash of its first parent; empty for a root
  std::string author = {}, date = {}, subject = {};

  std::string short_id() const { return id.substr(0, 12); }
};

/// A version of something else that a commit says is used.
struct Pin {
  std::string path;           // of the submodule, or of the file
  std::string before, after;  // commits of a submodule, or lines
  bool submodule = false;
};

/// A git repository, whose checkout is never touched. Each call runs git, without a shell; neither
/// hooks nor a monitor of the repository run, and nothing is asked on the terminal.
/// Errors: kUsage for names that git does not know, kEnvironment when git fails, kInterrupted.
class Repository {
 public:
  /// `folder`: the repository, or any folder in its checkout. `stop_fd` (-1: none) becomes readable
  /// when git is to be stopped.
  [[nodiscard]] static Repository open(const std::string& folder, int stop_fd = -1);

  Revision resolve(const std::string& name) const;

  /// `good`, then each next commit along first parents up to `bad`.
  /// Errors: kUsage unless `good` lies on the first-parent history of `bad`.
  std::vector<Revision> history(const Revision& good, const Revision& bad) const;

  /// What a merge brought in, a list a parent but the first: the commit of the first parent's
  /// history where it leaves that (a Revision without a hash where it shares none), then each next
  /// one along first parents up to the parent. Nothing of a commit that is no merge, or of a parent
  /// that the first one contains.
  std::vector<std::vector<Revision>> branches(const Revision& merge) const;

  /// All commits that can be reached from one, itself among them, and from none of others; parents
  /// before their children.
  std::vector<Revision> contents(const Revision& of, const std::vector<Revision>& without) const;

  /// What names the content of a commit at some paths, which are those of the folder that was
  /// opened; empty where it has none of them.
  std::string listing(const Revision& revision, const std::vector<std::string>& paths) const;

  /// The pins that changed between two commits: submodules, and lines of files that say which
  /// versions of others are used.
  std::vector<Pin> changed_pins(const Revision& before, const Revision& after) const;

  /// What git prints in a folder. Errors: kEnvironment where it fails.
  std::string ask(const std::string& folder, const std::vector<std::string>& arguments) const;

  /// The git folder that all worktrees of the repository share.
  const std::string& common_folder() const { return common_folder_; }
  /// Where searches in this repository store what they know: a folder beside its objects, which all
  /// of its worktrees share.
  std::string store() const;

  /// The folders of all worktrees but the main one.
  std::vector<std::string> worktrees() const;
  /// Checks a revision out in a new folder.
  void add_worktree(const std::string& path, const std::string& revision) const;
  /// Lets git forget a worktree whose folder is gone, where it knows of it.
  void forget_worktree(const std::string& path) const;

  const std::string& folder() const { return folder_; }
  /// What stops whatever is run for this repository.
  int stop_fd() const { return stop_fd_; }

 private:
  Repository(std::string folder, std::string common_folder, int stop_fd)
      : folder_(std::move(folder)), common_folder_(std::move(common_folder)), stop_fd_(stop_fd) {}
  ProcessResult run(std::vector<std::string> arguments) const;
  std::vector<Revision> log(std::vector<std::string> arguments) const;

  std::string folder_, common_folder_;
  int stop_fd_;
};

/// What a name names in the repository of a folder; nothing where there is no such commit, no
/// repository or no git. `stop_fd` as of `Repository::open`. Errors: kEnvironment of a git that is
/// there and fails; kInterrupted.
[[nodiscard]] std::optional<Revision> try_resolve(const std::string& folder,
                                                  const std::string& name, int stop_fd = -1);

/// A signal ended the search.
[[nodiscard]] inline Error interrupted() {
  return {ErrorCode::kInterrupted, "interrupted; what it had begun is removed"};
}

}  // namespace rlreplay::bisect

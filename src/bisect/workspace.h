#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/interrupt.h"
#include "src/bisect/git.h"

namespace rlreplay::bisect {

/// Removes a folder and all that is in it, also what a build has write-protected. What cannot be
/// removed is said on standard error.
void remove_folder(const std::string& path) noexcept;

/// Where one run leaves what it writes.
struct RunFolder {
  std::string path = {};

  std::string output() const { return path + "/out"; }
  std::string build_log() const { return path + "/build.log"; }
  std::string run_log() const { return path + "/run.log"; }
};

/// The folder of a search: the worktree, and a folder a run.
class Workspace {
 public:
  /// `kept`: a new or empty folder that stays with all that the runs wrote. Without one a temporary
  /// folder is made, of which only logs that a message named stay; none when the user interrupts.
  /// Errors: kUsage when `kept` holds something, kEnvironment.
  Workspace(const std::optional<std::string>& kept, const Interrupt& interrupt);
  /// As above, but without `kept` the folders of runs lie in `runs`, and stay.
  Workspace(const std::optional<std::string>& kept, const Interrupt& interrupt, std::string runs);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// The path of a slot's worktree, the same for every revision, so that no path can make a
  /// difference between two; another one after an `attempt` whose remains cannot be removed.
  std::string worktree(size_t slot = 0, size_t attempt = 0) const;

  /// Makes the next run's folder, with an empty output folder. From any thread.
  RunFolder add_run(const std::string& name);

  /// What a search whose process is gone has left: its worktree of this repository and its
  /// temporary folder. Folders that a living search holds, or that were asked for, stay.
  static void remove_abandoned(const Repository& repository);

  /// Nobody will read a run's output folder any more.
  void drop_output(const std::string& output) const;

  /// ` (log: PATH)`, where there is such a log: it will stay. From any thread.
  std::string name_log(const std::string& path);

 private:
  std::string path_;
  std::string runs_folder_;
  bool keep_all_;
  Descriptor lock_;  // of the file that is locked as long as this process lives
  const Interrupt& interrupt_;
  std::mutex mutex_;  // of what follows
  std::set<std::string> named_;
  int runs_ = 0;
};

/// A fresh checkout of one revision; gone at the end, with all that was built in it.
class Worktree {
 public:
  /// Errors: kEnvironment.
  Worktree(const Repository& repository, const std::string& revision, std::string path);
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

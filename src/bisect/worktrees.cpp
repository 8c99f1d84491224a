#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/error.h"
#include "src/bisect/git.h"

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

constexpr const char* kWorktrees = "/worktrees";
constexpr int kLockPollMs = 20;
constexpr int kTries = 10;

/// What git's folder holds of a worktree that is linked to it.
struct WorktreeEntry {
  fs::path entry;
  std::string folder;
};

/// Read without git, which fails for all worktrees where the making of one was cut short: it wrote
/// the entry's `gitdir` first and left `commondir` empty.
/// Source: gitrepository-layout(5), worktrees/<id>/gitdir
std::vector<WorktreeEntry> worktree_entries(const std::string& common_folder) {
  std::vector<WorktreeEntry> entries;
  std::error_code none;
  for (fs::directory_iterator entry(common_folder + kWorktrees, none), end; !none && entry != end;
       entry.increment(none)) {
    std::string link;
    std::getline(std::ifstream(entry->path() / "gitdir"), link);
    if (link.empty()) continue;
    const fs::path link_path = (entry->path() / link).lexically_normal();
    entries.push_back({entry->path(), link_path.parent_path()});
  }
  return entries;
}

/// Writes what git was kept from writing, whose entry it may be: the same as git would, so that it
/// does no harm where git is about to. Then that entry is in no other's way, and `git worktree` can
/// list and remove it.
void mend_entries(const std::string& common_folder) {
  constexpr std::string_view kCommon = "../..\n";
  for (const WorktreeEntry& known : worktree_entries(common_folder)) {
    const fs::path path = known.entry / "commondir";
    std::error_code absent;
    if (fs::file_size(path, absent) != 0 || absent) continue;
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    static_cast<void>(file && ::write(file.get(), kCommon.data(), kCommon.size()) > 0);
  }
}

/// Waits, unless there is a signal. Errors: kInterrupted.
void pause_for(int milliseconds, int stop_fd) {
  pollfd stop{stop_fd, POLLIN, 0};
  if (::poll(&stop, 1, milliseconds) > 0) throw interrupted();
}

/// Of all searches in a repository one at a time makes or forgets an entry of a worktree: git fails
/// where that of another is half there. Nothing where no lock can be had, or not in `most`.
/// Errors: kInterrupted.
Descriptor lock_worktrees(const std::string& store, std::chrono::seconds most, int stop_fd) {
  std::error_code ignored;
  fs::create_directories(store, ignored);
  const std::string path = store + "/worktrees.lock";
  const auto deadline = std::chrono::steady_clock::now() + most;
  try {
    while (true) {
      Descriptor lock = open_locked(AT_FDCWD, path, O_CREAT | O_RDWR, path);
      if (lock || std::chrono::steady_clock::now() >= deadline) return lock;
      pause_for(kLockPollMs, stop_fd);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kEnvironment) throw;
    return {};
  }
}

/// Whether git has failed because of an entry of another, which the user's own git may be making.
bool met_another(const ProcessResult& result) {
  return !result.succeeded() && result.error_tail.find("/worktrees/") != std::string::npos;
}

}  // namespace

std::vector<std::string> Repository::worktrees() const {
  std::vector<std::string> folders;
  for (auto& known : worktree_entries(common_folder_)) folders.push_back(std::move(known.folder));
  return folders;
}

void Repository::add_worktree(const std::string& path, const std::string& revision) const {
  constexpr std::chrono::seconds kMost{60};
  const auto check = [&](const ProcessResult& result) {
    if (result.succeeded()) return;
    throw Error(ErrorCode::kEnvironment,
                "git cannot check out " + revision.substr(0, 12) + ": it " + result.describe(),
                path);
  };
  const auto add = [&] {
    const Descriptor lock = lock_worktrees(store(), kMost, stop_fd_);
    mend_entries(common_folder_);
    return run(
        {"worktree", "add", "--quiet", "--detach", "--force", "--no-checkout", path, revision});
  };
  ProcessResult added = add();
  for (int tries = 1; met_another(added) && tries < kTries; ++tries) {
    pause_for(kLockPollMs, stop_fd_);
    added = add();
  }
  check(added);
  // As git itself would, but without the lock: for all else this is what takes its time.
  check(run({"-C", path, "reset", "--quiet", "--hard", "--no-recurse-submodules"}));
}

void Repository::forget_worktree(const std::string& path) const {
  constexpr std::chrono::seconds kMost{10};  // after a signal, too
  const Descriptor lock = lock_worktrees(store(), kMost, -1);
  for (const WorktreeEntry& known : worktree_entries(common_folder_)) {
    if (known.folder != path) continue;
    std::error_code failed;
    fs::remove(known.entry / "gitdir", failed);  // git looks no further than there where it lacks
    fs::remove_all(known.entry, failed);
    if (failed) {
      throw Error(ErrorCode::kEnvironment,
                  "cannot remove what git knows of a worktree: " + failed.message(), known.entry);
    }
  }
  std::error_code ignored;
  fs::remove(common_folder_ + kWorktrees, ignored);  // that of the last one, as git does
}

}  // namespace rlreplay::bisect

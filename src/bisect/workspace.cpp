#include "src/bisect/workspace.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/temporary_folder.h"
#include "src/base/terminal.h"
#include "src/base/words.h"

namespace fs = std::filesystem;
namespace rlreplay::bisect {
namespace {

/// Lets folders be emptied.
void unprotect(const std::string& path) {
  std::error_code ignored;
  fs::permissions(path, fs::perms::owner_all, fs::perm_options::add, ignored);
  for (fs::directory_iterator entry(path, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) unprotect(entry->path());
  }
}

}  // namespace

void remove_folder(const std::string& path) noexcept {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (!failed) return;
  unprotect(path);
  fs::remove_all(path, failed);
  if (failed) {
    std::fprintf(stderr, "rlbisect: %s: cannot be removed: %s\n", terminal_text(path).c_str(),
                 failed.message().c_str());
  }
}

namespace {

std::string make_kept_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) {
    throw Error(ErrorCode::kEnvironment, "cannot make this folder: " + failed.message(), path);
  }
  if (!fs::is_empty(path)) {
    throw Error(ErrorCode::kUsage, "the output folder must be new or empty", path);
  }
  return fs::canonical(path);
}

/// Removes what is in a folder but for some files.
void remove_others(const std::string& folder, const std::set<std::string>& kept) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path();
    const auto next = kept.lower_bound(path);
    if (next != kept.end() && *next == path) continue;
    if (entry.is_directory(ignored) && next != kept.end() && next->starts_with(path + "/")) {
      remove_others(path, kept);
    } else {
      remove_folder(path);
    }
  }
}

constexpr const char* kLockName = "/in-use";
constexpr const char* kWorktreeName = "/worktree";
constexpr const char* kTemporaryName = "rlbisect";

/// A lock that the process holds until it ends, however it ends; none where another one holds it,
/// or there is no such file.
Descriptor take_lock(const std::string& path, int flags = 0) {
  Descriptor file(::open(path.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.close();
  return file;
}

/// Locked before it has its name, so that nobody finds it free.
Descriptor make_lock(const std::string& path) {
  const std::string unnamed = path + ".new";
  Descriptor lock = take_lock(unnamed, O_CREAT | O_EXCL);
  if (!lock || ::rename(unnamed.c_str(), path.c_str()) != 0) {
    throw environment_error("cannot make this file, or lock it", path);
  }
  return lock;
}

/// Whether the process that made a folder has ended without removing it.
bool is_abandoned(const fs::path& folder) {
  return static_cast<bool>(take_lock(folder.string() + kLockName));
}

}  // namespace

Workspace::Workspace(const std::optional<std::string>& kept, const Interrupt& interrupt)
    : Workspace(kept, interrupt, "") {}

Workspace::Workspace(const std::optional<std::string>& kept, const Interrupt& interrupt,
                     std::string runs)
    : path_(kept ? make_kept_folder(*kept) : make_temporary_folder(kTemporaryName)),
      runs_folder_(kept || runs.empty() ? path_ : std::move(runs)),
      keep_all_(kept.has_value()),
      lock_(make_lock(path_ + kLockName)),
      interrupt_(interrupt) {}

void Workspace::remove_abandoned(const Repository& repository) {
  for (const fs::path worktree : repository.worktrees()) {
    const bool ours = worktree.filename().string().starts_with(kWorktreeName + 1);
    if (!ours || !is_abandoned(worktree.parent_path())) continue;
    remove_folder(worktree);
    repository.forget_worktree(worktree);
  }
  std::error_code ignored;
  const char* chosen = std::getenv("TMPDIR");  // as make_temporary_folder takes it
  const fs::path temporary = chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
  for (const auto& entry : fs::directory_iterator(temporary, ignored)) {
    const bool ours =
        entry.path().filename().string().starts_with(std::string(kTemporaryName) + "-");
    if (ours && entry.is_directory(ignored) && is_abandoned(entry)) remove_folder(entry.path());
  }
}

Workspace::~Workspace() {
  std::error_code ignored;
  fs::remove(path_ + kLockName, ignored);
  if (keep_all_) return;
  if (named_.empty() || interrupt_.signal() != 0 || runs_folder_ != path_) {
    remove_folder(path_);
  } else {
    remove_others(path_, named_);
  }
}

std::string Workspace::worktree(size_t slot, size_t attempt) const {
  return path_ + kWorktreeName + (slot > 0 ? "-" + std::to_string(slot + 1) : "") +
         (attempt > 0 ? "." + std::to_string(attempt) : "");
}

RunFolder Workspace::add_run(const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::error_code failed;
  RunFolder run;
  do {
    run.path = runs_folder_ + formatted("/%03d-", ++runs_) + name;
  } while (fs::exists(run.path, failed));
  fs::create_directories(run.output(), failed);
  if (failed) {
    throw Error(ErrorCode::kEnvironment, "cannot make this folder: " + failed.message(), run.path);
  }
  return run;
}

void Workspace::drop_output(const std::string& output) const {
  if (keep_all_) return;
  remove_folder(output);
  remove_folder(output + "-imported");
}

std::string Workspace::name_log(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const std::lock_guard lock(mutex_);
  named_.insert(path);
  return " (log: " + path + ")";
}

Worktree::Worktree(const Repository& repository, const std::string& revision, std::string path)
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

#include "src/bisect/folder.h"

#include <cstdio>
#include <filesystem>

#include "src/base/terminal_text.h"

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

}  // namespace rlreplay::bisect

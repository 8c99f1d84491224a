#include "src/bisect/folder.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <stdlib.h>

#include "src/base/error.h"

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

std::string make_temporary_folder() {
  std::error_code failed;
  // Canonical: git and a build's own pwd say the same path.
  std::string path = fs::canonical(fs::temp_directory_path(failed), failed) / "rlbisect-XXXXXX";
  if (failed || ::mkdtemp(path.data()) == nullptr) {
    throw Error(ErrorCode::kEnvironment,
                std::string("cannot make a temporary folder: ") +
                    (failed ? failed.message() : std::strerror(errno)),
                path);
  }
  return path;
}

void remove_folder(const std::string& path) noexcept {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (!failed) return;
  unprotect(path);
  fs::remove_all(path, failed);
  if (failed) {
    std::fprintf(stderr, "rlbisect: %s: cannot be removed: %s\n", path.c_str(),
                 failed.message().c_str());
  }
}

}  // namespace rlreplay::bisect

#include "src/base/leftovers.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/temporary_folder.h"

namespace rlreplay {
namespace {

namespace fs = std::filesystem;

/// Whether nobody has written a file, or anything in a folder, for an hour.
bool is_at_rest(const std::string& path) {
  const auto begin = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::error_code failed;
  const auto rests = [&](const fs::path& at) {
    const auto written = fs::last_write_time(at, failed);
    return !failed && written < begin;
  };
  if (!rests(path)) return false;
  if (!fs::is_directory(path, failed)) return !failed;
  for (fs::recursive_directory_iterator at(path, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (!at->is_symlink(failed) && !rests(at->path())) return false;
  }
  return !failed;
}

/// Locks what this user left under a name, if nobody else has. `flags` of a file say O_RDWR: NFS
/// locks none that is open for reading.
Descriptor lock_left(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  const bool is_own = file && ::fstat(file.get(), &info) == 0 && info.st_uid == ::geteuid() &&
                      (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
  if (!is_own || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 || !is_at_rest(path)) file.close();
  return file;
}

void each_name(const fs::path& folder,
               const std::function<void(const std::string&)>& use) noexcept {
  try {
    for (const auto& entry : fs::directory_iterator(folder)) use(entry.path().filename().string());
  } catch (const fs::filesystem_error&) {  // what cannot be listed stays
  }
}

bool is_hexadecimal(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

bool lock_own(int descriptor, const std::string& path) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return has_name(descriptor, AT_FDCWD, path);
}

void remove_left_files(const std::string& path) noexcept {
  constexpr size_t kDigits = 16;
  const fs::path target(path);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const std::string begin = target.filename().string() + ".tmp-";
  each_name(folder, [&](const std::string& name) {
    if (name.size() != begin.size() + kDigits || !name.starts_with(begin)) return;
    if (!is_hexadecimal(std::string_view(name).substr(begin.size()))) return;
    const std::string left = (folder / name).string();
    if (lock_left(left, O_RDWR)) ::unlink(left.c_str());
  });
}

void remove_left_folders(const std::string& parent, const std::string& prefix) noexcept {
  constexpr size_t kLetters = 6;
  const std::string begin = prefix + "-";
  each_name(parent, [&](const std::string& name) {
    if (name.size() != begin.size() + kLetters || !name.starts_with(begin)) return;
    const std::string left = (fs::path(parent) / name).string();
    if (lock_left(left, O_RDONLY | O_DIRECTORY)) remove_tree(left);
  });
}

}  // namespace rlreplay

#include "src/base/descriptor.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/environment_error.h"

namespace rlreplay {

bool is_synced(int result) { return result == 0 || errno == EINVAL; }

void make_names_durable(const std::string& folder) {
  const Descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file && is_synced(::fsync(file.get()))) return;
  throw environment_error("could not make the folder durable", folder);
}

bool has_name(int file, int folder, const std::string& name) {
  struct stat own {
  }, named{};
  return ::fstat(file, &own) == 0 &&
         ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

Descriptor open_locked(int folder, const std::string& name, int flags, const std::string& where) {
  while (true) {
    Descriptor file(::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file && errno == EINTR) continue;
    if (!file) throw environment_error("could not open", where);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return {};
      throw environment_error("could not lock", where);
    }
    if (has_name(file.get(), folder, name)) return file;
  }
}

}  // namespace rlreplay

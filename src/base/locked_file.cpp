#include "src/base/locked_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "src/base/error.h"

namespace rlreplay {
namespace {

Error failed(const char* what, const std::string& where) {
  return {ErrorCode::kEnvironment, std::string(what) + ": " + std::strerror(errno), where};
}

bool has_name(int file, int folder, const std::string& name) {
  struct stat own {
  }, named{};
  return ::fstat(file, &own) == 0 &&
         ::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

}  // namespace

Descriptor open_locked(int folder, const std::string& name, int flags, const std::string& where) {
  while (true) {
    Descriptor file(::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file && errno == EINTR) continue;
    if (!file) throw failed("could not open", where);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return {};
      throw failed("could not lock", where);
    }
    if (has_name(file.get(), folder, name)) return file;
  }
}

}  // namespace rlreplay

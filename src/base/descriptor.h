#pragma once

#include <string>
#include <utility>

#include <unistd.h>

namespace rlreplay {

/// One owner of one file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(release());
  }

 private:
  int fd_ = -1;
};

/// Whether an fsync of a folder, which returned `result`, did what can be done: some file systems
/// cannot sync a folder and say EINVAL.
[[nodiscard]] bool is_synced(int result);

/// Makes the names in a folder durable. Errors: kEnvironment.
void make_names_durable(const std::string& folder);

/// Whether an open file is the one that has `name` in a folder (AT_FDCWD: where this process is); a
/// link is a file of its own.
[[nodiscard]] bool has_name(int file, int folder, const std::string& name);

/// Opens `name` in a folder and takes its exclusive lock, which lasts until the descriptor is
/// closed. The lock is that of the file which has the name then: one that was removed or replaced
/// between opening and locking is opened anew. `flags` as of open; links are not followed.
/// Returns nothing (an empty descriptor) where another process holds the lock.
/// Errors: kEnvironment; `where` names the file.
[[nodiscard]] Descriptor open_locked(int folder, const std::string& name, int flags,
                                     const std::string& where);

}  // namespace rlreplay

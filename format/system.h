#pragma once

#include <cstddef>

#include <sys/types.h>

namespace rlreplay::format {

/// The system calls that write a dump, one to one. Tests replace them to make a disk full, short
/// of breath or broken at a chosen call.
class System {
 public:
  virtual ~System() = default;
  [[nodiscard]] virtual ssize_t write(int file, const void* bytes, size_t size);
  [[nodiscard]] virtual ssize_t write_at(int file, const void* bytes, size_t size, off_t at);
  [[nodiscard]] virtual int fsync(int file);
  [[nodiscard]] virtual int rename(int folder, const char* from, int to_folder, const char* to);
  [[nodiscard]] virtual int make_folder(int folder, const char* name);
  [[nodiscard]] virtual int remove(int folder, const char* name);
};

/// For a dump that is thrown away when its maker has read it: nothing of it waits for the disk.
class UnsyncedSystem : public System {
 public:
  [[nodiscard]] int fsync(int) override { return 0; }
};

}  // namespace rlreplay::format

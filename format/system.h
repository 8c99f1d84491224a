#pragma once

#include <cstddef>
#include <memory>
#include <utility>

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
  [[nodiscard]] virtual int syncfs(int file);
  [[nodiscard]] virtual int rename(int folder, const char* from, int to_folder, const char* to);
  [[nodiscard]] virtual int make_folder(int folder, const char* name);
  [[nodiscard]] virtual int remove(int folder, const char* name);
};

/// The calls of another System but for fsync, which does nothing: only syncfs waits for the disk.
class UnsyncedSystem : public System {
 public:
  explicit UnsyncedSystem(std::shared_ptr<System> of) : of_(std::move(of)) {}
  [[nodiscard]] ssize_t write(int file, const void* bytes, size_t size) override {
    return of_->write(file, bytes, size);
  }
  [[nodiscard]] ssize_t write_at(int file, const void* bytes, size_t size, off_t at) override {
    return of_->write_at(file, bytes, size, at);
  }
  [[nodiscard]] int fsync(int) override { return 0; }
  [[nodiscard]] int syncfs(int file) override { return of_->syncfs(file); }
  [[nodiscard]] int rename(int folder, const char* from, int to_folder, const char* to) override {
    return of_->rename(folder, from, to_folder, to);
  }
  [[nodiscard]] int make_folder(int folder, const char* name) override {
    return of_->make_folder(folder, name);
  }
  [[nodiscard]] int remove(int folder, const char* name) override {
    return of_->remove(folder, name);
  }

 private:
  std::shared_ptr<System> of_;  // whoever gave it in WriterOptions has it, too
};

}  // namespace rlreplay::format

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "format/system.h"
#include "src/base/memory_block.h"

namespace rlreplay::format {

/// Where a file that is being built goes: bytes at places, in any order, and zeros where none came.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Errors (also of the others): kEnvironment.
  virtual void write(uint64_t at, std::span<const std::byte> bytes) = 0;
  /// Bytes that were written before.
  virtual void read(uint64_t at, std::span<std::byte> out) = 0;
  /// The end of the file.
  virtual void resize(uint64_t size) = 0;
};

/// A file in memory.
class MemorySink final : public Sink {
 public:
  void write(uint64_t at, std::span<const std::byte> bytes) override;
  void read(uint64_t at, std::span<std::byte> out) override;
  void resize(uint64_t size) override;

  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  /// Hands the memory over; nothing is left here.
  MemoryBlock release();

 private:
  MemoryBlock data_;
  size_t size_ = 0, capacity_ = 0;
};

/// A file on a disk, which somebody else opened and will close.
class FileSink final : public Sink {
 public:
  /// `where` names the file in errors.
  FileSink(int file, System& system, std::string where)
      : file_(file), system_(system), where_(std::move(where)) {}

  void write(uint64_t at, std::span<const std::byte> bytes) override;
  void read(uint64_t at, std::span<std::byte> out) override;
  void resize(uint64_t size) override;

 private:
  int file_;
  System& system_;
  std::string where_;
};

}  // namespace rlreplay::format

#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace rlreplay {

/// A file's bytes in memory, read-only, from when they are touched. Others may write to the file
/// meanwhile; pages that it has lost read as zeros.
class FileMapping {
 public:
  FileMapping() = default;
  /// The first `size` bytes of an open file, which may be closed afterwards.
  /// Errors: kEnvironment where the system refuses.
  FileMapping(int file, size_t size, const std::string& path);
  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&& other) noexcept;
  ~FileMapping();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Tells the system that the pages of `range` are not needed for now: they leave memory and are
  /// read again from the file when touched. Nothing where the range lies elsewhere.
  void release(std::span<const std::byte> range) const;
  [[nodiscard]] bool has_lost_pages() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int guard_ = -1;  // against SIGBUS
};

}  // namespace rlreplay

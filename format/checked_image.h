#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "format/folder.h"
#include "src/base/buffer.h"
#include "src/base/hash.h"
#include "src/base/thread_pool.h"

namespace rlreplay::format {

/// Memory of an image that is gone, for the next one: the pages of fresh memory cost as much as the
/// reading of a small unit.
class SpareBuffer {
 public:
  Buffer<std::byte> take();
  void give(Buffer<std::byte> buffer);

 private:
  std::mutex mutex_;
  Buffer<std::byte> buffer_;
};

/// The bytes of a unit's file, which have the hash that its record names. Nothing else is parsed:
/// the reader of HDF5 takes this type, and there is no other way to make one.
class CheckedImage {
 public:
  /// Errors: FormatError kUnitSize or kUnitHash.
  CheckedImage(Buffer<std::byte> bytes, uint64_t size, const Hash& hash, const std::string& path);
  /// Reads and checks a unit's file with all threads. Errors: as above, and of reading.
  static CheckedImage read(const OpenFile& file, const Hash& hash, ThreadPool& pool,
                           std::shared_ptr<SpareBuffer> spare);
  /// Only checks the file, a piece at a time. Errors: as above.
  static void check(const OpenFile& file, const Hash& hash, ThreadPool& pool);
  CheckedImage(CheckedImage&&) noexcept = default;
  CheckedImage& operator=(CheckedImage&&) noexcept = default;
  ~CheckedImage();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  CheckedImage(Buffer<std::byte> bytes, std::shared_ptr<SpareBuffer> spare)
      : bytes_(std::move(bytes)), spare_(std::move(spare)) {}

  Buffer<std::byte> bytes_;
  std::shared_ptr<SpareBuffer> spare_;  // null: the memory is not kept
};

}  // namespace rlreplay::format

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
#include "src/base/file_mapping.h"
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
  /// Reads and checks a unit's file with all threads. One of more than `most_held` bytes is hashed
  /// piece by piece and then mapped, and what has been read of it leaves memory again: who changes
  /// it in between is found out by the hashes of its datasets.
  /// Errors: as above, and of reading.
  [[nodiscard]] static CheckedImage read(const OpenFile& file, const Hash& hash, ThreadPool& pool,
                                         std::shared_ptr<SpareBuffer> spare, uint64_t most_held);
  /// Checks a unit's file, a piece at a time, and keeps nothing of it. Errors: as of `read`.
  static void check(const OpenFile& file, const Hash& hash, ThreadPool& pool);
  CheckedImage(CheckedImage&&) noexcept = default;
  CheckedImage& operator=(CheckedImage&&) noexcept = default;
  ~CheckedImage();

  std::span<const std::byte> bytes() const {
    return is_mapped() ? mapping_.bytes() : std::span<const std::byte>(bytes_);
  }
  [[nodiscard]] bool is_mapped() const { return !mapping_.bytes().empty(); }

  /// A part of `bytes` that nobody else can change: itself, or a copy in `room`.
  [[nodiscard]] std::span<const std::byte> fetch(std::span<const std::byte> part,
                                                 std::span<std::byte> room) const;
  /// Says that a part of `bytes` is not needed for now.
  void release(std::span<const std::byte> part) const;

 private:
  CheckedImage(Buffer<std::byte> bytes, std::shared_ptr<SpareBuffer> spare)
      : bytes_(std::move(bytes)), spare_(std::move(spare)) {}
  explicit CheckedImage(FileMapping mapping) : mapping_(std::move(mapping)) {}

  Buffer<std::byte> bytes_;
  std::shared_ptr<SpareBuffer> spare_;  // null: the memory is not kept
  FileMapping mapping_;                 // of a larger file
};

}  // namespace rlreplay::format

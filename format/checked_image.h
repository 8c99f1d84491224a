#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "format/folder.h"
#include "src/base/buffer.h"
#include "src/base/hash.h"
#include "src/base/thread_pool.h"

namespace rlreplay::format {

/// The bytes of a unit's file, which have the hash that its record names. libhdf5 is given nothing
/// else: its wrapper takes this type, and there is no other way to make one.
class CheckedImage {
 public:
  /// Errors: FormatError kUnitSize or kUnitHash.
  CheckedImage(Buffer<std::byte> bytes, uint64_t size, const Hash& hash, const std::string& path);
  /// Reads and checks a unit's file with all threads. Errors: as above, and of reading.
  static CheckedImage read(const OpenFile& file, const Hash& hash, ThreadPool& pool);
  CheckedImage(CheckedImage&&) noexcept = default;
  CheckedImage& operator=(CheckedImage&&) noexcept = default;

  std::span<const std::byte> bytes() const { return {bytes_.data(), bytes_.size()}; }

 private:
  explicit CheckedImage(Buffer<std::byte> bytes) : bytes_(std::move(bytes)) {}

  Buffer<std::byte> bytes_;
};

}  // namespace rlreplay::format

#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/hash.h"

namespace rlreplay::format {

/// Hashes bytes that several threads put in place piece by piece, in any order: whoever completes
/// the next piece in line hashes on from there, while it is still in a cache, and nobody waits.
class OrderedHash {
 public:
  /// The pieces have `piece` bytes each, the last one fewer.
  OrderedHash(std::span<const std::byte> bytes, size_t piece);

  /// Says that a piece is in place. May be called by several threads at once.
  void add(size_t index);

  /// The hash of all bytes, once all pieces are in place and every `add` has returned.
  /// Errors: kInternal where a piece is missing.
  Hash finish() const;

 private:
  std::span<const std::byte> bytes_;
  size_t piece_;
  std::mutex mutex_;
  std::vector<bool> there_;
  size_t next_ = 0;
  bool busy_ = false;
  Hasher hasher_;  // whoever set busy_ uses it
};

}  // namespace rlreplay::format

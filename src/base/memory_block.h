#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace rlreplay {

/// Memory that grows by realloc, which new and delete have no word for.
struct FreeMemory {
  void operator()(std::byte* p) const { std::free(p); }
};
using MemoryBlock = std::unique_ptr<std::byte[], FreeMemory>;

/// Gives `block` this many bytes; what it held stays, at another place. Whether there was room:
/// where there was none it is as before.
[[nodiscard]] inline bool resize(MemoryBlock& block, size_t bytes) {
  auto* moved = static_cast<std::byte*>(std::realloc(block.get(), bytes));
  if (moved == nullptr) return false;
  static_cast<void>(block.release());  // realloc has taken it
  block.reset(moved);
  return true;
}

}  // namespace rlreplay

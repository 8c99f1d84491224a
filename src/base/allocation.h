#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rlreplay {

/// Uninitialized memory for numbers, to be given back with std::free: aligned to a cache line; from
/// 2 MiB on in large pages where the system has them, for the pieces of a matrix in small pages
/// collide in a second-level cache and stop the prefetcher at each border.
/// Errors: std::bad_alloc.
[[nodiscard]] void* allocate(size_t bytes);

/// Bytes that this process may still take: the least of what the kernel calls available and of what
/// its control groups (v2) leave, page cache that can be dropped counted as free. Where neither is
/// known, the largest int64. `root` stands before /proc and /sys, for tests.
[[nodiscard]] int64_t available_memory(const std::string& root = "");

}  // namespace rlreplay

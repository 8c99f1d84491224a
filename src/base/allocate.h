#pragma once

#include <cstddef>

namespace rlreplay {

/// Uninitialized memory for numbers, to be given back with std::free: aligned to a cache line; from
/// 2 MiB on in large pages where the system has them, for the pieces of a matrix in small pages
/// collide in a second-level cache and stop the prefetcher at each border.
/// Errors: std::bad_alloc.
void* allocate(size_t bytes);

}  // namespace rlreplay

#pragma once

#include <cstdint>
#include <string>

namespace rlreplay {

/// Bytes that this process may still take: the least of what the kernel calls available and of what
/// its control groups (v2) leave, page cache that can be dropped counted as free. Where neither is
/// known, the largest int64. `root` stands before /proc and /sys, for tests.
int64_t available_memory(const std::string& root = "");

}  // namespace rlreplay

#pragma once

#include <cstddef>

namespace rlreplay {

/// Guards a mapping of a file against SIGBUS, which a page raises that the file has lost: from then
/// on the page reads as zeros, and the guard knows. Any thread may read meanwhile.
/// Returns the guard's number, for `end_guard`. Errors: kEnvironment where there are too many.
[[nodiscard]] int guard_mapping(const void* begin, size_t size);
void end_guard(int guard);

/// Whether the mapping has lost a page.
[[nodiscard]] bool has_lost_pages(int guard);

}  // namespace rlreplay

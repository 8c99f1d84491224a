#pragma once

#include <functional>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// Hands the logical content of a tensor, row-major, to `take` as runs of bytes that lie one
/// behind the other in its storage: one run where the tensor is contiguous.
void for_each_run(const Tree& tree, const Tensor& tensor, const std::function<void(Bytes)>& take);

/// The logical content, row-major: a view of the storage where the tensor is contiguous, else a
/// copy in `scratch`.
[[nodiscard]] Bytes contiguous_content(const Tree& tree, const Tensor& tensor,
                                       std::vector<uint8_t>& scratch);

}  // namespace rlreplay::foreign

#pragma once

#include <string>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// Writes a tree as a file that torch.load accepts (pickle of protocol 2, stored records). The
/// content is the tree's; each tensor gets a storage of its own, contiguous, at the location of the
/// one that it was a window of. The same tree gives the same bytes.
/// Errors: kEnvironment; kUnsupported for a text above 4 GiB.
void write_torch_file(const std::string& path, const Tree& tree, Value root);

}  // namespace rlreplay::foreign

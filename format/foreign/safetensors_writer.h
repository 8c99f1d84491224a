#pragma once

#include <span>
#include <string>

#include "format/foreign/safetensors_file.h"

namespace rlreplay::foreign {

/// Writes tensors as a safetensors file that appears complete or not at all. The widest element
/// types come first, then by name, so that every tensor is aligned to its elements; the same
/// tensors give the same bytes.
/// Errors: kInternal for a tensor whose bytes do not fit its shape or a name twice; kEnvironment.
void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors);

}  // namespace rlreplay::foreign

#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/safetensors_file.h"

namespace rlreplay::foreign {

/// Writes tensors as a safetensors file that appears complete or not at all. The widest element
/// types come first, then by name, so that every tensor is aligned to its elements; the same
/// tensors give the same bytes.
/// Errors: kInternal for a tensor whose bytes do not fit its shape or a name twice; kEnvironment.
void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors);

/// A tensor whose content is not in memory.
struct TensorHead {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

/// Writes tensors whose content is not in memory: `content` gives it in pieces, one tensor after
/// the other. Errors: as above, and those of `content`.
using TensorSink = std::function<void(Bytes piece)>;
void write_safetensors(const std::string& path, std::span<const TensorHead> tensors,
                       const std::function<void(size_t tensor, const TensorSink& sink)>& content);

}  // namespace rlreplay::foreign

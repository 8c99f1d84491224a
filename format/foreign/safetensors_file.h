#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/foreign/mapped_file.h"
#include "src/base/dtype.h"

namespace rlreplay::foreign {

/// A tensor as a file holds it: dense, row-major, little-endian.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  Bytes data;

  /// Elements.
  int64_t count() const { return static_cast<int64_t>(data.size() / size_of(dtype)); }
};

/// The shape in brackets for messages: "[640, 192]".
[[nodiscard]] std::string shape_text(const std::vector<int64_t>& shape);

/// A safetensors file, mapped and checked as hostile input: the header is at most 100 MB of JSON
/// without repeated keys, and the tensors fill the rest of the file without overlap or hole, each
/// with the bytes that its shape needs.
/// Source: safetensors, README, "Format"; the bound is its MAX_HEADER_SIZE.
class SafetensorsFile {
 public:
  /// Errors: kCorrupt, naming the tensor; kUnsupported for an unknown element type; as MappedFile.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }

  /// All tensors, in the order of their data. They view the mapped file.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  /// The tensor of this name or null.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;

  /// The texts of "__metadata__".
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }

  const MappedFile& file() const { return file_; }

 private:
  void read_header(std::string_view header, Bytes data);

  MappedFile file_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace rlreplay::foreign

#include "format/foreign/safetensors_file.h"

#include <algorithm>
#include <array>

#include "format/foreign/safetensors_types.h"
#include "format/foreign/text.h"
#include "src/base/budget.h"
#include "src/base/json_value.h"

namespace rlreplay::foreign {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxShape = 32;
constexpr uint64_t kTensorBytes = 256;  // of its description, name and place in the index

/// The header's text. Errors: kCorrupt.
std::string_view find_header(const MappedFile& file) {
  const Bytes bytes = file.bytes();
  if (bytes.size() < 8) {
    corrupt(
        "the file has " + std::to_string(bytes.size()) + " bytes, too few for a safetensors header",
        file.path());
  }
  const auto size = load_as<uint64_t>(bytes.data());
  if (size > kMaxHeader) {
    corrupt("the header claims " + std::to_string(size) + " bytes; at most " +
                std::to_string(kMaxHeader) + " are accepted",
            file.path());
  }
  if (size > bytes.size() - 8) {
    corrupt("the header claims " + std::to_string(size) + " bytes, the file has " +
                std::to_string(bytes.size() - 8) + " behind its length",
            file.path());
  }
  const std::string_view header = as_text(bytes.subspan(8, size));
  if (!header.starts_with('{')) corrupt("the header does not begin with '{'", file.path());
  return header;
}

/// Reads one entry of the header; `begin` becomes the offset of its data.
StoredTensor read_tensor(std::string_view name, JsonValue entry, Bytes data, uint64_t& begin) {
  StoredTensor tensor;
  tensor.name = name;
  const std::string& type = entry["dtype"].string();
  const std::optional<DType> dtype = safetensors_dtype(type);
  if (!dtype) {
    throw entry["dtype"].error(ErrorCode::kUnsupported, "unknown element type " + printable(type));
  }
  tensor.dtype = *dtype;
  const JsonValue shape = entry["shape"];
  if (shape.size() > kMaxShape) throw shape.error("more than 32 dimensions");
  auto bytes = static_cast<int64_t>(size_of(tensor.dtype));
  bool empty = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    tensor.shape.push_back(shape.at(i).integer(0, INT64_MAX));
    empty = empty || tensor.shape.back() == 0;
  }
  for (const int64_t size : tensor.shape) {
    if (!empty && __builtin_mul_overflow(bytes, size, &bytes)) {
      throw shape.error("the shape overflows");
    }
  }
  const JsonValue offsets = entry["data_offsets"];
  if (offsets.size() != 2) throw offsets.error("data_offsets are not two numbers");
  const auto limit = static_cast<int64_t>(data.size());
  begin = static_cast<uint64_t>(offsets.at(0).integer(0, limit));
  const auto end = static_cast<uint64_t>(offsets.at(1).integer(0, limit));
  if (end < begin) throw offsets.error("the data ends before it begins");
  const uint64_t wanted = empty ? 0 : static_cast<uint64_t>(bytes);
  if (end - begin != wanted) {
    throw entry.error("a tensor of shape " + shape_text(tensor.shape) + " needs " +
                      std::to_string(wanted) + " bytes, its data has " +
                      std::to_string(end - begin));
  }
  for (const auto& [key, value] : entry.members()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      throw value.error("unknown key in a tensor's entry");
    }
  }
  tensor.data = data.subspan(begin, wanted);
  return tensor;
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const std::string_view header = find_header(file_);
  read_header(header, file_.bytes().subspan(8 + header.size()));
}

void SafetensorsFile::read_header(std::string_view header, Bytes data) {
  Budget budget(file_.bytes().size());
  const JsonDocument document =
      JsonDocument::parse(header, file_.path(), {kMaxHeader, 8, /*unique_keys=*/true});
  std::vector<std::pair<uint64_t, StoredTensor>> found;
  for (const auto& [name, entry] : document.root().members()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.members()) metadata_.emplace_back(key, value.string());
      continue;
    }
    uint64_t begin = 0;
    budget.hold(kTensorBytes);
    StoredTensor tensor = read_tensor(name, entry, data, begin);
    found.emplace_back(begin, std::move(tensor));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.data.size()) < std::pair(b.first, b.second.data.size());
  });
  uint64_t at = 0;
  for (auto& [begin, tensor] : found) {
    if (begin != at) {
      corrupt(begin < at ? "the data of tensor " + printable(tensor.name) + " overlaps another's"
                         : "a hole of " + std::to_string(begin - at) + " bytes before tensor " +
                               printable(tensor.name),
              file_.path() + ": data byte " + std::to_string(begin));
    }
    at += tensor.data.size();
    tensors_.push_back(std::move(tensor));
  }
  if (at != data.size()) {
    corrupt(std::to_string(data.size() - at) + " bytes behind the last tensor belong to none",
            file_.path() + ": data byte " + std::to_string(at));
  }
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace rlreplay::foreign

#include "format/foreign/safetensors_writer.h"

#include <algorithm>

#include "format/foreign/canonical_json.h"
#include "format/foreign/safetensors_types.h"
#include "src/base/atomic_file.h"

namespace rlreplay::foreign {
namespace {

void check_size(const StoredTensor& tensor) {
  auto bytes = static_cast<int64_t>(size_of(tensor.dtype));
  for (const int64_t size : tensor.shape) {
    check(!__builtin_mul_overflow(bytes, size, &bytes), "a tensor's shape overflows");
  }
  check(static_cast<uint64_t>(bytes) == tensor.data.size(),
        "a tensor to be written has the bytes of its shape");
}

std::vector<const StoredTensor*> in_order(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    if (size_of(a->dtype) != size_of(b->dtype)) return size_of(a->dtype) > size_of(b->dtype);
    return a->name < b->name;
  });
  return order;
}

std::string make_header(const std::vector<const StoredTensor*>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t at = 0;
  for (const StoredTensor* tensor : tensors) {
    header += ',';
    append_json_string(header, tensor->name);
    header.append(":{\"dtype\":\"").append(safetensors_name(tensor->dtype));
    header.append("\",\"shape\":").append(shape_text(tensor->shape)).append(",\"data_offsets\":[");
    header.append(std::to_string(at)).append(",");
    at += tensor->data.size();
    header.append(std::to_string(at)).append("]}");
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors) {
  const std::vector<const StoredTensor*> order = in_order(tensors);
  for (size_t i = 0; i < order.size(); ++i) {
    check_size(*order[i]);
    check(i == 0 || order[i - 1]->name != order[i]->name, "a tensor's name is written twice");
  }
  const std::string header = make_header(order);
  const uint64_t size = header.size();
  AtomicFile file(path);
  file.write({reinterpret_cast<const uint8_t*>(&size), sizeof(size)});
  file.write(as_bytes(header));
  for (const StoredTensor* tensor : order) file.write(tensor->data);
  file.commit();
}

}  // namespace rlreplay::foreign

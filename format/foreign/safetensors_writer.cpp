#include "format/foreign/safetensors_writer.h"

#include <algorithm>
#include <numeric>

#include "format/foreign/canonical_json.h"
#include "format/foreign/safetensors_types.h"
#include "src/base/atomic_file.h"

namespace rlreplay::foreign {
namespace {

uint64_t bytes_of(const TensorHead& tensor) {
  auto bytes = static_cast<int64_t>(size_of(tensor.dtype));
  for (const int64_t size : tensor.shape) {
    check(!__builtin_mul_overflow(bytes, size, &bytes), "a tensor's shape overflows");
  }
  return static_cast<uint64_t>(bytes);
}

/// The places of the tensors in the order of the file.
std::vector<size_t> in_order(std::span<const TensorHead> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t i, size_t j) {
    const TensorHead &a = tensors[i], &b = tensors[j];
    if (size_of(a.dtype) != size_of(b.dtype)) return size_of(a.dtype) > size_of(b.dtype);
    return a.name < b.name;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    check(tensors[order[i - 1]].name != tensors[order[i]].name, "a tensor's name is written twice");
  }
  return order;
}

std::string make_header(std::span<const TensorHead> tensors, const std::vector<size_t>& order) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t at = 0;
  for (const size_t i : order) {
    const TensorHead& tensor = tensors[i];
    header += ',';
    append_json_string(header, tensor.name);
    header.append(":{\"dtype\":\"").append(safetensors_name(tensor.dtype));
    header.append("\",\"shape\":").append(shape_text(tensor.shape)).append(",\"data_offsets\":[");
    header.append(std::to_string(at)).append(",");
    at += bytes_of(tensor);
    header.append(std::to_string(at)).append("]}");
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorHead> tensors,
                       const std::function<void(size_t tensor, const TensorSink& sink)>& content) {
  const std::vector<size_t> order = in_order(tensors);
  const std::string header = make_header(tensors, order);
  const uint64_t size = header.size();
  AtomicFile file(path);
  file.write({reinterpret_cast<const uint8_t*>(&size), sizeof(size)});
  file.write(as_bytes(header));
  for (const size_t i : order) {
    uint64_t written = 0;
    content(i, [&](Bytes piece) {
      file.write(piece);
      written += piece.size();
    });
    check(written == bytes_of(tensors[i]), "a tensor to be written has the bytes of its shape");
  }
  file.commit();
}

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors) {
  std::vector<TensorHead> heads;
  for (const StoredTensor& t : tensors) heads.push_back({t.name, t.dtype, t.shape});
  write_safetensors(path, heads, [&](size_t i, const TensorSink& sink) { sink(tensors[i].data); });
}

}  // namespace rlreplay::foreign

#include "format/foreign/float_values.h"

#include <bit>
#include <cstring>
#include <string>

#include "format/foreign/half.h"
#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

[[noreturn]] void no_floats(const StoredTensor& tensor) {
  throw Error(ErrorCode::kUnsupported, "tensor " + printable(tensor.name) + " holds " +
                                           std::string(to_string(tensor.dtype)) +
                                           "; f32, bf16 and f16 are supported");
}

/// Bits is an unsigned type of an element's width; the exponent's bits are those of `mask`.
template <class Bits>
std::optional<NonFinite> first(Bytes data, Bits mask) {
  constexpr size_t kBlock = 1024;
  const size_t count = data.size() / sizeof(Bits);
  const auto at = [&](size_t i) { return load_as<Bits>(data.data() + i * sizeof(Bits)); };
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    bool any = false;  // without an early exit the compiler makes vectors of it
    for (size_t i = begin; i < end; ++i) any |= (at(i) & mask) == mask;
    for (size_t i = begin; any && i < end; ++i) {
      if ((at(i) & mask) != mask) continue;
      const auto sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
      const auto magnitude = static_cast<Bits>(at(i) & static_cast<Bits>(~sign));
      return NonFinite{static_cast<int64_t>(i), magnitude != mask};
    }
  }
  return std::nullopt;
}

}  // namespace

void to_float(const StoredTensor& tensor, std::span<float> out) {
  check(out.size() == static_cast<size_t>(tensor.count()), "a tensor is widened to its own size");
  const uint8_t* data = tensor.data.data();
  switch (tensor.dtype) {
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), data, tensor.data.size());
      return;
    case DType::kBF16:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = bfloat16_to_float(load_as<uint16_t>(data + 2 * i));
      }
      return;
    case DType::kF16:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = float16_to_float(load_as<uint16_t>(data + 2 * i));
      }
      return;
    default:
      no_floats(tensor);
  }
}

std::optional<NonFinite> first_nonfinite(const StoredTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
      return first<uint32_t>(tensor.data, 0x7F800000);
    case DType::kBF16:
      return first<uint16_t>(tensor.data, 0x7F80);
    case DType::kF16:
      return first<uint16_t>(tensor.data, 0x7C00);
    default:
      no_floats(tensor);
  }
}

}  // namespace rlreplay::foreign

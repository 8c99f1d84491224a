#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace rlreplay {

/// Element types of stored tensors. The types without a C++ counterpart are held as their bits.
enum class DType : uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF8E4M3,
  kF8E5M2,
  kE8M0,
  kF16,
  kBF16,
  kF32,
  kF64,
};

inline constexpr DType kAllDTypes[] = {DType::kBool, DType::kI8,     DType::kI16,    DType::kI32,
                                       DType::kI64,  DType::kU8,     DType::kU16,    DType::kU32,
                                       DType::kU64,  DType::kF8E4M3, DType::kF8E5M2, DType::kE8M0,
                                       DType::kF16,  DType::kBF16,   DType::kF32,    DType::kF64};

/// The name in files and reports: `f32`, `bf16`, `i64`, `bool`.
[[nodiscard]] std::string_view to_string(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_string(std::string_view name);

/// Bytes of one element.
[[nodiscard]] size_t size_of(DType dtype);

/// The element at `at`, which need not be aligned.
template <class T>
[[nodiscard]] T load_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace rlreplay

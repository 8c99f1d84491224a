#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/base/dtype.h"

namespace rlreplay {

/// The element type of a C++ type; bf16 and the like have none, name theirs.
template <class T>
[[nodiscard]] constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kI8;
  if constexpr (std::is_same_v<T, int16_t>) return DType::kI16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kU16;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::kU32;
  if constexpr (std::is_same_v<T, uint64_t>) return DType::kU64;
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
}

/// Row-major elements of any dtype, not owned: the last axis of a tensor is `cols`, all axes before
/// it are `rows`. Rows are `stride` elements apart.
struct RowsView {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  const std::byte* at(int64_t row, int64_t col) const {
    return data + static_cast<size_t>(row * stride + col) * size_of(dtype);
  }
};

/// A view of elements in memory; without a stride each row lies right behind the one before.
template <class T>
[[nodiscard]] RowsView rows_view(const T* data, int64_t rows, int64_t cols, int64_t stride) {
  return {dtype_of<T>(), reinterpret_cast<const std::byte*>(data), rows, cols, stride};
}

template <class T>
[[nodiscard]] RowsView rows_view(const T* data, int64_t rows, int64_t cols) {
  return rows_view(data, rows, cols, cols);
}

}  // namespace rlreplay

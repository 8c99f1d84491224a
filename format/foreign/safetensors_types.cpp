#include "format/foreign/safetensors_types.h"

#include <array>
#include <utility>

#include "src/base/error.h"

namespace rlreplay::foreign {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 16> kDTypeNames = {
    {{"BOOL", DType::kBool},
     {"I8", DType::kI8},
     {"I16", DType::kI16},
     {"I32", DType::kI32},
     {"I64", DType::kI64},
     {"U8", DType::kU8},
     {"U16", DType::kU16},
     {"U32", DType::kU32},
     {"U64", DType::kU64},
     {"F8_E4M3", DType::kF8E4M3},
     {"F8_E5M2", DType::kF8E5M2},
     {"F8_E8M0", DType::kE8M0},
     {"F16", DType::kF16},
     {"BF16", DType::kBF16},
     {"F32", DType::kF32},
     {"F64", DType::kF64}}};

}  // namespace

std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const auto& [known, dtype] : kDTypeNames) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

std::string_view safetensors_name(DType dtype) {
  for (const auto& [name, known] : kDTypeNames) {
    if (known == dtype) return name;
  }
  throw Error(ErrorCode::kInternal, "an element type without a name in safetensors");
}

}  // namespace rlreplay::foreign

#include "format/foreign/torch_dtype.h"

#include <array>
#include <cstddef>

namespace rlreplay::foreign {
namespace {

struct Row {
  std::string_view name;
  std::string_view storage;  // empty where only untyped storages hold it
  int64_t size;
};

// In the order of the enumeration.
constexpr std::array<Row, 22> kRows = {{{"float64", "DoubleStorage", 8},
                                        {"float32", "FloatStorage", 4},
                                        {"float16", "HalfStorage", 2},
                                        {"bfloat16", "BFloat16Storage", 2},
                                        {"int64", "LongStorage", 8},
                                        {"int32", "IntStorage", 4},
                                        {"int16", "ShortStorage", 2},
                                        {"int8", "CharStorage", 1},
                                        {"uint64", "", 8},
                                        {"uint32", "", 4},
                                        {"uint16", "", 2},
                                        {"uint8", "ByteStorage", 1},
                                        {"bool", "BoolStorage", 1},
                                        {"complex128", "ComplexDoubleStorage", 16},
                                        {"complex64", "ComplexFloatStorage", 8},
                                        {"complex32", "", 4},
                                        {"float8_e4m3fn", "", 1},
                                        {"float8_e4m3fnuz", "", 1},
                                        {"float8_e5m2", "", 1},
                                        {"float8_e5m2fnuz", "", 1},
                                        {"float8_e8m0fnu", "", 1},
                                        {"float4_e2m1fn_x2", "", 1}}};

template <class Column>
std::optional<TorchDType> find(std::string_view wanted, Column column) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].*column == wanted && !wanted.empty()) return static_cast<TorchDType>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(TorchDType dtype) { return kRows[static_cast<size_t>(dtype)].name; }
std::string_view storage_class(TorchDType dtype) {
  return kRows[static_cast<size_t>(dtype)].storage;
}
int64_t item_size(TorchDType dtype) { return kRows[static_cast<size_t>(dtype)].size; }
std::optional<TorchDType> dtype_named(std::string_view name) { return find(name, &Row::name); }
std::optional<TorchDType> dtype_of_storage(std::string_view name) {
  return find(name, &Row::storage);
}

}  // namespace rlreplay::foreign

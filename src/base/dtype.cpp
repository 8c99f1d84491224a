#include "src/base/dtype.h"

#include <iterator>

namespace rlreplay {
namespace {

struct Row {
  std::string_view name;
  size_t size;
};

// In the order of the enumeration.
constexpr Row kRows[] = {{"bool", 1}, {"i8", 1},     {"i16", 2},    {"i32", 4},
                         {"i64", 8},  {"u8", 1},     {"u16", 2},    {"u32", 4},
                         {"u64", 8},  {"f8e4m3", 1}, {"f8e5m2", 1}, {"e8m0", 1},
                         {"f16", 2},  {"bf16", 2},   {"f32", 4},    {"f64", 8}};
static_assert(std::size(kRows) == std::size(kAllDTypes));

}  // namespace

std::string_view to_string(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_from_string(std::string_view name) {
  for (const DType dtype : kAllDTypes) {
    if (to_string(dtype) == name) return dtype;
  }
  return std::nullopt;
}

size_t size_of(DType dtype) { return kRows[static_cast<size_t>(dtype)].size; }

}  // namespace rlreplay

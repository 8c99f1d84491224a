#include "src/replay/doctor/hub_comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "format/foreign/float_values.h"
#include "format/foreign/half.h"
#include "src/base/text_table.h"

namespace rlreplay::replay {
namespace {

bool same(foreign::Bytes a, foreign::Bytes b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

DType type_of(const HubTensor& tensor) { return tensor.from->stored->dtype; }

bool has_floats(const HubTensor& tensor) {
  const DType type = type_of(tensor);
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

bool same_rows(const HubTensor& a, const HubTensor& b, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    if (!same(a.row(i), b.row(i))) return false;
  }
  return true;
}

std::vector<float> floats_of(const HubTensor& tensor, int64_t row) {
  foreign::StoredTensor part;
  part.dtype = type_of(tensor);
  part.data = tensor.row(row);
  std::vector<float> out(static_cast<size_t>(tensor.columns));
  foreign::to_float(part, out);
  return out;
}

bool same_bits(float x, float y) {
  return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
}

bool is_half(DType type) { return type == DType::kBF16 || type == DType::kF16; }

/// Within a unit in the last place of the narrower type.
bool is_near(const HubTensor& a, const HubTensor& b) {
  if (a.rows != b.rows || a.columns != b.columns) return false;
  const bool brain = type_of(a) == DType::kBF16 || type_of(b) == DType::kBF16;
  const float relative = brain ? 0x1p-7F : 0x1p-10F;
  for (int64_t i = 0; i < a.rows; ++i) {
    const std::vector<float> x = floats_of(a, i), y = floats_of(b, i);
    for (size_t j = 0; j < x.size(); ++j) {
      if (same_bits(x[j], y[j]) || (std::isnan(x[j]) && std::isnan(y[j]))) continue;
      if (!std::isfinite(x[j]) || !std::isfinite(y[j])) return false;
      const float near = relative * std::max(std::abs(x[j]), std::abs(y[j])) + 0x1p-24F;
      if (!(std::abs(x[j] - y[j]) <= near)) return false;
    }
  }
  return true;
}

/// Whether a bfloat16 is the upper half of each number, as who casts by a shift leaves it.
bool is_cut(const HubTensor& narrow, const HubTensor& wide) {
  if (type_of(narrow) != DType::kBF16) return false;
  for (int64_t i = 0; i < wide.rows; ++i) {
    const std::vector<float> x = floats_of(wide, i);
    const foreign::Bytes row = narrow.row(i);
    for (size_t j = 0; j < x.size(); ++j) {
      if (std::bit_cast<uint32_t>(x[j]) >> 16 != load_as<uint16_t>(row.data() + 2 * j))
        return false;
    }
  }
  return true;
}

uint16_t rounded(float value, DType type) {
  return type == DType::kBF16 ? foreign::float_to_bfloat16(value)
                              : foreign::float_to_float16(value);
}

/// A tensor of binary32 in a narrower type.
class RoundedCopy {
 public:
  RoundedCopy(const HubTensor& wide, DType type) {
    for (int64_t i = 0; i < wide.rows; ++i) {
      for (const float x : floats_of(wide, i)) elements_.push_back(rounded(x, type));
    }
    stored_.name = wide.from->name();
    stored_.dtype = type;
    stored_.shape = wide.from->stored->shape;
    stored_.data = {reinterpret_cast<const uint8_t*>(elements_.data()), 2 * elements_.size()};
    view_ = wide;
    view_.from = &tensor_;
    view_.runs = {{0, wide.rows}};
  }
  RoundedCopy(const RoundedCopy&) = delete;
  RoundedCopy& operator=(const RoundedCopy&) = delete;

  const HubTensor& view() const { return view_; }

 private:
  std::vector<uint16_t> elements_;
  foreign::StoredTensor stored_;
  WeightTensor tensor_{&stored_, nullptr};
  HubTensor view_;
};

/// Whether rows of one are columns of the other.
bool is_transposed(const HubTensor& a, const HubTensor& b) {
  if (type_of(a) != type_of(b) || a.rows != b.columns || a.columns != b.rows) return false;
  if (a.rows == 1 || a.columns == 1) return false;
  const size_t size = size_of(type_of(a));
  for (int64_t i = 0; i < a.rows; ++i) {
    const foreign::Bytes row = a.row(i);
    for (int64_t j = 0; j < a.columns; ++j) {
      const foreign::Bytes other = b.row(j).subspan(static_cast<size_t>(i) * size, size);
      if (!same(row.subspan(static_cast<size_t>(j) * size, size), other)) return false;
    }
  }
  return true;
}

/// The rows of a tensor in the order of their bytes.
std::vector<int64_t> sorted_rows(const HubTensor& tensor) {
  std::vector<std::pair<size_t, int64_t>> rows;
  for (int64_t i = 0; i < tensor.rows; ++i) {
    const foreign::Bytes row = tensor.row(i);
    const std::string_view text(reinterpret_cast<const char*>(row.data()), row.size());
    rows.emplace_back(std::hash<std::string_view>()(text), i);
  }
  std::ranges::sort(rows);
  std::vector<int64_t> out;
  for (const auto& [hash, row] : rows) out.push_back(row);
  return out;
}

/// Of rows that are those of `b` in another order: which order.
std::optional<TensorDifference> reordered(const HubTensor& a, const HubTensor& b, int64_t head) {
  if (type_of(a) != type_of(b) || a.rows < 2) return std::nullopt;
  const std::vector<int64_t> x = sorted_rows(a), y = sorted_rows(b);
  bool within = head > 1 && a.rows % head == 0, whole = within;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!same(a.row(x[i]), b.row(y[i]))) return std::nullopt;
    within = within && x[i] / head == y[i] / head;
    whole = whole && x[i] % head == y[i] % head;
  }
  if (whole) return TensorDifference::kHeads;
  return within ? TensorDifference::kRotary : TensorDifference::kOrder;
}

bool rows_round_to(const HubTensor& wide, const HubTensor& narrow) {
  const DType type = type_of(narrow);
  for (int64_t i = 0; i < wide.rows; ++i) {
    const std::vector<float> x = floats_of(wide, i);
    const foreign::Bytes row = narrow.row(i);
    for (size_t j = 0; j < x.size(); ++j) {
      if (rounded(x[j], type) != load_as<uint16_t>(row.data() + 2 * j)) return false;
    }
  }
  return true;
}

bool same_tensors(const HubTensor& a, const HubTensor& b) {
  return type_of(a) == type_of(b) && a.rows == b.rows && a.columns == b.columns &&
         same_rows(a, b, a.rows);
}

/// How two tensors differ that have one type, or types of which none is rounded to the other.
TensorDifference compare_elements(const HubTensor& a, const HubTensor& b, int64_t head,
                                  bool vocabulary) {
  if (a.rows != b.rows || a.columns != b.columns) {
    if (is_transposed(a, b)) return TensorDifference::kTransposed;
    const bool padded = vocabulary && a.columns == b.columns && type_of(a) == type_of(b) &&
                        same_rows(a, b, std::min(a.rows, b.rows));
    return padded ? TensorDifference::kPadded : TensorDifference::kShape;
  }
  if (!a.fused && !b.fused && a.from->stored->shape != b.from->stored->shape) {
    return TensorDifference::kShape;
  }
  if (same_tensors(a, b)) return TensorDifference::kEqual;
  if (is_transposed(a, b)) return TensorDifference::kTransposed;
  return reordered(a, b, head).value_or(TensorDifference::kValues);
}

/// As what the wide one rounds to, but for what is cut, or near it alone.
TensorDifference compare_rounded(const HubTensor& narrow, const HubTensor& wide, int64_t head,
                                 bool vocabulary) {
  const RoundedCopy copy(wide, type_of(narrow));
  const TensorDifference found = compare_elements(narrow, copy.view(), head, vocabulary);
  if (found == TensorDifference::kEqual) return TensorDifference::kCast;
  if (found != TensorDifference::kValues) return found;
  if (is_cut(narrow, wide)) return TensorDifference::kCast;
  return is_near(narrow, wide) ? TensorDifference::kNear : found;
}

}  // namespace

bool same_numbers(const HubTensor& a, const HubTensor& b) {
  const DType x = type_of(a), y = type_of(b);
  if (a.rows != b.rows || a.columns != b.columns) return false;
  if (x == y) return same_rows(a, b, a.rows);
  if (x == DType::kF32 && is_half(y)) return rows_round_to(a, b);
  return y == DType::kF32 && is_half(x) && rows_round_to(b, a);
}

TensorDifference compare_tensors(const HubTensor& a, const HubTensor& b, int64_t head,
                                 bool vocabulary) {
  const DType x = type_of(a), y = type_of(b);
  if (is_half(x) && y == DType::kF32) return compare_rounded(a, b, head, vocabulary);
  if (is_half(y) && x == DType::kF32) return compare_rounded(b, a, head, vocabulary);
  const TensorDifference found = compare_elements(a, b, head, vocabulary);
  const bool halves = x != y && is_half(x) && is_half(y);
  return halves && found == TensorDifference::kValues && is_near(a, b) ? TensorDifference::kCast
                                                                       : found;
}

std::string distance_text(const HubTensor& a, const HubTensor& b) {
  if (!has_floats(a) || !has_floats(b)) return "other bytes";
  double difference = 0, norm = 0;
  std::string first;
  bool finite = true;  // all that differ
  for (int64_t i = 0; i < a.rows; ++i) {
    const std::vector<float> x = floats_of(a, i), y = floats_of(b, i);
    for (size_t j = 0; j < x.size(); ++j) {
      const bool equal = same_bits(x[j], y[j]);
      if (first.empty() && !equal) first = "[" + std::to_string(i) + ", " + std::to_string(j) + "]";
      if (!std::isfinite(x[j]) || !std::isfinite(y[j])) {
        finite = finite && equal;
        continue;
      }
      const double distance = static_cast<double>(x[j]) - static_cast<double>(y[j]);
      difference += distance * distance;
      norm += static_cast<double>(y[j]) * static_cast<double>(y[j]);
    }
  }
  if (!finite) return "numbers that are not finite, first at " + first;
  const double relative = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  return "relative distance " + short_number(relative, 2) + ", first at " + first;
}

}  // namespace rlreplay::replay

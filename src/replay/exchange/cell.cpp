#include "src/replay/exchange/cell.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "format/foreign/tensor_content.h"
#include "src/base/number_text.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Sequence;
using foreign::TorchDType;
using foreign::Tree;
using foreign::Value;
using format::Column;
using format::Texts;
using format::TokenFloats;

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// The tokens of a sample's response; all of them where its prompt's length is not known.
template <class Data>
Range response(const Data& data, size_t row) {
  const uint64_t prompt = data.prompt_length ? (*data.prompt_length)[row] : 0;
  return {data.offsets[row] + prompt, data.offsets[row + 1]};
}

template <class T>
std::span<const T> part(const std::vector<T>& values, Range range) {
  return std::span<const T>(values).subspan(range.begin, range.end - range.begin);
}

std::optional<Cell> cell_of(const std::optional<TokenFloats>& column, size_t row, Range range) {
  if (!column || !column->has(row)) return std::nullopt;
  if (column->is_wide()) return part(column->wide, range);
  return part(column->narrow, range);
}

std::optional<Cell> cell_of(const std::optional<Column<uint8_t>>& column, size_t row, Range range) {
  if (!column || !column->has(row)) return std::nullopt;
  return part(column->values, range);
}

std::optional<Cell> cell_of(const std::optional<Texts>& texts, size_t row) {
  if (!texts || !texts->has(row)) return std::nullopt;
  return texts->at(row);
}

template <class To, class From>
bool convert(std::span<const From> values, std::vector<uint8_t>& out) {
  out.resize(values.size() * sizeof(To));
  for (size_t i = 0; i < values.size(); ++i) {
    const To to = static_cast<To>(values[i]);
    if (static_cast<From>(to) != values[i] && values[i] == values[i]) return false;
    std::memcpy(out.data() + i * sizeof(To), &to, sizeof(To));
  }
  return true;
}

/// Whether every float is one of bfloat16, whose bits are the upper half.
bool to_bfloat16(std::span<const float> values, std::vector<uint8_t>& out) {
  out.resize(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    if ((bits & 0xFFFF) != 0) return false;
    const auto upper = static_cast<uint16_t>(bits >> 16);
    std::memcpy(out.data() + 2 * i, &upper, 2);
  }
  return true;
}

template <class From>
bool to_dtype(std::span<const From> values, TorchDType dtype, std::vector<uint8_t>& out) {
  if constexpr (std::is_integral_v<From>) {
    if (dtype == TorchDType::kInt64) return convert<int64_t>(values, out);
    if (dtype == TorchDType::kInt32) return convert<int32_t>(values, out);
    if (dtype == TorchDType::kUint8) return convert<uint8_t>(values, out);
    if (dtype == TorchDType::kFloat32) return convert<float>(values, out);
  } else {
    if (dtype == TorchDType::kFloat64) return convert<double>(values, out);
    if (dtype == TorchDType::kFloat32) return convert<float>(values, out);
    if constexpr (std::is_same_v<From, float>) {
      if (dtype == TorchDType::kBFloat16) return to_bfloat16(values, out);
    }
  }
  return false;
}

// By bits: -0.0 is another number than 0.0. A list without entries is of no kind.
template <class T>
bool list_holds(const Sequence& list, std::span<const T> values) {
  constexpr bool kIntegers = std::is_integral_v<T>;
  if (list.size() != values.size()) return false;
  if (kIntegers ? !list.is_integers() : !list.is_floats()) return kIntegers && values.empty();
  return list.see_packed([&](auto items) {
    return std::equal(items.begin(), items.end(), values.begin(), [](auto a, auto b) {
      if constexpr (kIntegers) return static_cast<int64_t>(a) == static_cast<int64_t>(b);
      return std::bit_cast<uint64_t>(static_cast<double>(a)) ==
             std::bit_cast<uint64_t>(static_cast<double>(b));
    });
  });
}

bool tensor_holds(const Tree& tree, const foreign::Tensor& tensor, const Cell& cell) {
  const std::optional<std::vector<uint8_t>> bytes = tensor_bytes(cell, tensor.dtype);
  if (!bytes) return false;
  std::vector<uint8_t> scratch;
  const foreign::Bytes content = contiguous_content(tree, tensor, scratch);
  return std::equal(bytes->begin(), bytes->end(), content.begin(), content.end());
}

}  // namespace

std::optional<Cell> find_cell(const format::RolloutData& data, std::string_view dataset,
                              size_t row) {
  if (row >= data.size()) return std::nullopt;
  if (dataset == "tokens") return part(data.tokens, {data.offsets[row], data.offsets[row + 1]});
  if (dataset == "log_probs") return cell_of(data.log_probs, row, response(data, row));
  if (dataset == "loss_mask") return cell_of(data.loss_mask, row, response(data, row));
  if (dataset == "prompt_text") return cell_of(data.prompt_text, row);
  if (dataset == "response_text") return cell_of(data.response_text, row);
  if (dataset == "label_text") return cell_of(data.label_text, row);
  return std::nullopt;
}

std::optional<Cell> find_cell(const format::TrainData& data, std::string_view dataset, size_t row) {
  if (row >= data.size()) return std::nullopt;
  if (dataset == "tokens") {
    if (!data.tokens) return std::nullopt;
    return part(*data.tokens, {data.offsets[row], data.offsets[row + 1]});
  }
  if (dataset == "loss_mask") return cell_of(data.loss_mask, row, response(data, row));
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    if (field.name == dataset) return cell_of(data.*field.column, row, response(data, row));
  }
  return std::nullopt;
}

std::optional<Cell> NativeData::find(std::string_view place) const {
  const size_t last = place.rfind('/');
  if (last == place.npos || last == 0) return std::nullopt;
  const size_t middle = place.rfind('/', last - 1);
  if (middle == place.npos) return std::nullopt;
  const std::optional<size_t> row = parse_number<size_t>(place.substr(last + 1));
  const std::string_view dataset = place.substr(middle + 1, last - middle - 1);
  const std::string_view owner = place.substr(0, middle);
  if (!row) return std::nullopt;
  if (const auto it = rollouts.find(owner); it != rollouts.end()) {
    return find_cell(it->second, dataset, *row);
  }
  const auto it = trains.find(owner);
  return it == trains.end() ? std::nullopt : find_cell(it->second, dataset, *row);
}

bool holds(const Tree& tree, Value value, const Cell& cell) {
  return std::visit(
      [&](auto values) {
        if constexpr (std::is_same_v<decltype(values), std::string_view>) {
          return value.kind == Kind::kText && tree.text(value) == values;
        } else if (value.kind == Kind::kTensor) {
          return tensor_holds(tree, tree.tensor(value), cell);
        } else {
          return value.kind == Kind::kList && list_holds(tree.sequence(value), values);
        }
      },
      cell);
}

Value add_cell(Tree& tree, const Cell& cell) {
  return std::visit(
      [&](auto values) {
        if constexpr (std::is_same_v<decltype(values), std::string_view>) {
          return tree.own_text(Kind::kText, std::string(values));
        } else {
          constexpr size_t kPiece = 1024;
          const Value list = tree.add_sequence(Kind::kList);
          std::vector<Value> piece;
          for (size_t i = 0; i < values.size(); ++i) {
            if constexpr (std::is_integral_v<typename decltype(values)::value_type>) {
              piece.push_back(Value::of_int(values[i]));
            } else {
              piece.push_back(Value::of_float(static_cast<double>(values[i])));
            }
            if (piece.size() < kPiece && i + 1 < values.size()) continue;
            tree.append(list, piece, true);
            piece.clear();
          }
          return list;
        }
      },
      cell);
}

std::optional<std::vector<uint8_t>> tensor_bytes(const Cell& cell, TorchDType dtype) {
  return std::visit(
      [&](auto values) -> std::optional<std::vector<uint8_t>> {
        if constexpr (std::is_same_v<decltype(values), std::string_view>) {
          return std::nullopt;
        } else {
          std::vector<uint8_t> bytes;
          if (!to_dtype(values, dtype, bytes)) return std::nullopt;
          return bytes;
        }
      },
      cell);
}

}  // namespace rlreplay::replay

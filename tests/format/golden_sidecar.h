#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "format/dump_reader.h"
#include "src/base/dtype.h"
#include "src/base/json_line.h"

/// A dump as text that a person, and another implementation, can read.
namespace rlreplay::format::test {

template <class T>
std::vector<T> elements(const Buffer<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// As JSON: each a decimal, of floats the shortest that reads back.
template <class T>
std::string decimals(const std::vector<T>& values) {
  std::string out;
  for (const T value : values) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    out += (out.empty() ? "" : ",") + std::string(text, end);
  }
  return "[" + out + "]";
}

/// Of floats none where one has no decimal.
template <class T>
std::optional<std::string> decimals_of(const Buffer<std::byte>& bytes) {
  const std::vector<T> values = elements<T>(bytes);
  if constexpr (std::is_floating_point_v<T>) {
    const auto finite = [](T value) { return std::isfinite(value); };
    if (!std::all_of(values.begin(), values.end(), finite)) return std::nullopt;
  }
  return decimals(values);
}

inline std::optional<std::string> decimals_of(DType dtype, const Buffer<std::byte>& bytes) {
  switch (dtype) {
    case DType::kI8:
      return decimals_of<int8_t>(bytes);
    case DType::kI16:
      return decimals_of<int16_t>(bytes);
    case DType::kI32:
      return decimals_of<int32_t>(bytes);
    case DType::kI64:
      return decimals_of<int64_t>(bytes);
    case DType::kBool:
    case DType::kU8:
      return decimals_of<uint8_t>(bytes);
    case DType::kU16:
      return decimals_of<uint16_t>(bytes);
    case DType::kU32:
      return decimals_of<uint32_t>(bytes);
    case DType::kU64:
      return decimals_of<uint64_t>(bytes);
    case DType::kF32:
      return decimals_of<float>(bytes);
    case DType::kF64:
      return decimals_of<double>(bytes);
    default:
      return std::nullopt;
  }
}

/// As JSON: the bits of each element in hexadecimal, the highest first.
inline std::string hex_bits(size_t size, const Buffer<std::byte>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += size) {
    out += at == 0 ? "\"" : ",\"";
    for (size_t i = size; i-- > 0;) {
      const auto byte = static_cast<uint8_t>(bytes[at + i]);
      out += {kDigits[byte >> 4], kDigits[byte & 15]};
    }
    out += '"';
  }
  return "[" + out + "]";
}

inline std::string attributes_json(const h5::Attributes& attributes) {
  JsonLine line;
  for (const auto& [name, value] : attributes) {
    const auto* text = std::get_if<std::string>(&value);
    text ? line.text(name, *text)
         : line.json(name, decimals(std::get<std::vector<uint64_t>>(value)));
  }
  return line.str();
}

inline std::string sidecar_line(const std::string& unit, const StoredDataset& dataset,
                                const Buffer<std::byte>& bytes) {
  JsonLine line;
  line.text("unit", unit).text("path", dataset.path).text("dtype", to_string(dataset.dtype));
  line.json("shape", decimals(dataset.shape)).text("hash", dataset.hash.hex());
  line.json("attributes", attributes_json(dataset.attributes));
  if (dataset.base) line.text("base", dataset.base->unit);
  const auto values = decimals_of(dataset.dtype, bytes);
  values ? line.json("values", *values)
         : line.json("bits", hex_bits(size_of(dataset.dtype), bytes));
  return line.str();
}

/// A line of JSON for each dataset, in the order of units and of their datasets: a JSON list.
inline std::vector<std::string> sidecar_of(const DumpReader& dump) {
  std::vector<std::string> lines;
  for (const UnitRecord& record : dump.units()) {
    const UnitReader unit = dump.open_unit(record);
    for (const StoredDataset& dataset : unit.datasets()) {
      lines.push_back(sidecar_line(record.path, dataset, dump.read(unit, dataset)));
    }
  }
  return lines;
}

}  // namespace rlreplay::format::test

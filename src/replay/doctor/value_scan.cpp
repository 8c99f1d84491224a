#include "src/replay/doctor/value_scan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/text_table.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kChunk = size_t{4} << 20;

/// The first byte that is a NaN or an infinity of an 8-bit type.
std::optional<foreign::NonFinite> first_of_bytes(DType dtype, foreign::Bytes data) {
  const auto bad = [dtype](uint8_t byte) {
    if (dtype == DType::kF8E4M3) return (byte & 0x7F) == 0x7F;
    return dtype == DType::kE8M0 ? byte == 0xFF : (byte & 0x7C) == 0x7C;
  };
  const auto found = std::ranges::find_if(data, bad);
  if (found == data.end()) return std::nullopt;
  return foreign::NonFinite{found - data.begin(), dtype != DType::kF8E5M2 || (*found & 3) != 0};
}

std::optional<foreign::NonFinite> first_of_doubles(foreign::Bytes data) {
  constexpr uint64_t kExponent = uint64_t{0x7FF} << 52;
  for (size_t i = 0; i < data.size() / 8; ++i) {
    const auto bits = load_as<uint64_t>(data.data() + 8 * i);
    if ((bits & kExponent) != kExponent) continue;
    return foreign::NonFinite{static_cast<int64_t>(i), (bits & ((uint64_t{1} << 52) - 1)) != 0};
  }
  return std::nullopt;
}

std::optional<foreign::NonFinite> first_nonfinite(DType dtype, foreign::Bytes data) {
  switch (dtype) {
    case DType::kF32:
    case DType::kBF16:
    case DType::kF16: {
      foreign::StoredTensor part;
      part.dtype = dtype;
      part.data = data;
      return foreign::first_nonfinite(part);
    }
    case DType::kF64:
      return first_of_doubles(data);
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kE8M0:
      return first_of_bytes(dtype, data);
    default:
      return std::nullopt;
  }
}

/// Whether all elements are the first one.
bool repeats(foreign::Bytes data, foreign::Bytes first) {
  if (data.empty()) return true;
  if (std::memcmp(data.data(), first.data(), first.size()) != 0) return false;
  return std::memcmp(data.data(), data.data() + first.size(), data.size() - first.size()) == 0;
}

}  // namespace

bool is_floating(DType dtype) {
  static constexpr auto kTypes = std::to_array({DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                                DType::kF8E4M3, DType::kF8E5M2, DType::kE8M0});
  return std::ranges::find(kTypes, dtype) != kTypes.end();
}

ValueScan scan_values(const foreign::MappedFile& file, DType dtype, foreign::Bytes data,
                      const std::function<void(size_t)>& read) {
  ValueScan out;
  const foreign::Bytes first = data.first(std::min(data.size(), size_of(dtype)));
  for (size_t at = 0; at < data.size(); at += kChunk) {
    const foreign::Bytes chunk = data.subspan(at, std::min(kChunk, data.size() - at));
    out.constant = out.constant && repeats(chunk, first);
    if (!out.nonfinite) {
      out.nonfinite = first_nonfinite(dtype, chunk);
      if (out.nonfinite) out.nonfinite->index += static_cast<int64_t>(at / size_of(dtype));
    }
    file.release(chunk);
    read(chunk.size());
  }
  return out;
}

bool same_bytes(const foreign::MappedFile& file, foreign::Bytes data,
                const foreign::MappedFile& other, foreign::Bytes other_data) {
  if (data.size() != other_data.size()) return false;
  for (size_t at = 0; at < data.size(); at += kChunk) {
    const size_t size = std::min(kChunk, data.size() - at);
    const foreign::Bytes a = data.subspan(at, size), b = other_data.subspan(at, size);
    if (std::memcmp(a.data(), b.data(), size) != 0) return false;
    file.release(a);
    other.release(b);
  }
  return true;
}

std::string element_text(DType dtype, foreign::Bytes data, size_t index) {
  const foreign::Bytes element = data.subspan(index * size_of(dtype), size_of(dtype));
  if (dtype == DType::kF64) return short_number(load_as<double>(element.data()));
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16) {
    return "byte " + std::to_string(element[0]);
  }
  foreign::StoredTensor part;
  part.dtype = dtype;
  part.data = element;
  float value = 0;
  foreign::to_float(part, {&value, 1});
  return short_number(static_cast<double>(value));
}

}  // namespace rlreplay::replay

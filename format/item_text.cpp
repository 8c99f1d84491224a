#include "format/item_text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "format/boxes.h"
#include "format/dataset.h"
#include "src/base/dtype.h"

namespace rlreplay::format {
namespace {

using Bytes = std::span<const std::byte>;

template <class T>
T element(Bytes bytes, size_t index) {
  return load_as<T>(&bytes[index * sizeof(T)]);
}

template <class To, class From>
void add_converted(Bytes bytes, Hasher& hasher) {
  constexpr size_t kPiece = 4096;
  std::vector<To> piece;
  const size_t count = bytes.size() / sizeof(From);
  for (size_t first = 0; first < count; first += kPiece) {
    piece.clear();
    for (size_t i = first; i < std::min(count, first + kPiece); ++i) {
      const auto value = static_cast<To>(element<From>(bytes, i));
      if constexpr (std::is_floating_point_v<To>) {
        piece.push_back(std::isnan(value) ? std::numeric_limits<To>::quiet_NaN() : value);
      } else {
        piece.push_back(value);
      }
    }
    hasher.update(std::as_bytes(std::span(piece)));
  }
}

/// The hash of elements of another type.
template <class To, class From>
Hash converted(Bytes bytes) {
  Hasher hasher;
  add_converted<To, From>(bytes, hasher);
  return hasher.finish();
}

template <class From, class Test>
bool all(Bytes bytes, Test test) {
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    if (!test(element<From>(bytes, i))) return false;
  }
  return true;
}

std::string as(const char* type, const Hash& hash) { return std::string(type) + " " + hash.hex(); }

/// Integers as the first of u8, i32, i64, u64 that holds them all.
template <class From>
std::string integers(Bytes bytes, const std::optional<Hash>& known) {
  const auto fits = [&]<class To>(To) {
    if constexpr (std::is_same_v<To, From>) return true;
    return all<From>(bytes, [](From x) { return std::in_range<To>(x); });
  };
  const auto hash = [&]<class To>(To) {
    if (std::is_same_v<To, From> && known) return *known;
    return converted<To, From>(bytes);
  };
  if (fits(uint8_t{})) return as("u8", hash(uint8_t{}));
  if (fits(int32_t{})) return as("i32", hash(int32_t{}));
  if (fits(int64_t{})) return as("i64", hash(int64_t{}));
  return as("u64", hash(uint64_t{}));
}

/// Floats as f32 where that holds them all, else as f64; a NaN is the quiet one without a sign.
std::string floats32(Bytes bytes, const std::optional<Hash>& known) {
  const bool plain = all<float>(bytes, [](float x) { return !std::isnan(x); });
  return as("f32", plain && known ? *known : converted<float, float>(bytes));
}

std::string floats64(Bytes bytes, const std::optional<Hash>& known) {
  const bool narrow = all<double>(bytes, [](double x) {
    return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x;
  });
  if (narrow) return as("f32", converted<float, double>(bytes));
  const bool plain = all<double>(bytes, [](double x) { return !std::isnan(x); });
  return as("f64", plain && known ? *known : converted<double, double>(bytes));
}

}  // namespace

std::string elements_text(DType dtype, Bytes bytes, const std::optional<Hash>& known) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return as("u8", known ? *known : hash_of(bytes));
    case DType::kI8:
      return integers<int8_t>(bytes, known);
    case DType::kI16:
      return integers<int16_t>(bytes, known);
    case DType::kU16:
      return integers<uint16_t>(bytes, known);
    case DType::kI32:
      return integers<int32_t>(bytes, known);
    case DType::kU32:
      return integers<uint32_t>(bytes, known);
    case DType::kI64:
      return integers<int64_t>(bytes, known);
    case DType::kU64:
      return integers<uint64_t>(bytes, known);
    case DType::kF32:
      return floats32(bytes, known);
    case DType::kF64:
      return floats64(bytes, known);
    default:  // the bits of short floats
      return std::string(to_string(dtype)) + " " + (known ? *known : hash_of(bytes)).hex();
  }
}

std::string attributes_text(const h5::Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) {
    if (is_placing(name)) continue;
    const auto* words = std::get_if<std::string>(&value);
    text += " " + name + "=";
    text += words != nullptr ? hash_of(*words).hex()
                             : comma_list(std::get<std::vector<uint64_t>>(value));
  }
  return text;
}

Hash hash_of_item(std::string_view key, const std::string& text) {
  return hash_of(std::string(key) + " " + text);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

void FloatHash::update(std::span<const std::byte> piece) {
  add_converted<float, float>(piece, hasher_);
}

}  // namespace rlreplay::format

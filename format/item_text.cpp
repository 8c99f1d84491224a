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

/// Elements that are held, in one piece.
struct HeldItem {
  Bytes bytes;
  template <class Use>
  void each(Use use) const {
    use(bytes);
  }
};

/// Elements that come piece by piece.
struct Streamed {
  const ElementPieces& pieces;
  template <class Use>
  void each(Use use) const {
    pieces(use);
  }
};

/// The hash of elements of another type.
template <class To, class From, class Elements>
Hash converted(const Elements& elements) {
  Hasher hasher;
  elements.each([&](Bytes piece) { add_converted<To, From>(piece, hasher); });
  return hasher.finish();
}

template <class Elements>
Hash hash_of_all(const Elements& elements) {
  Hasher hasher;
  elements.each([&](Bytes piece) { hasher.update(piece); });
  return hasher.finish();
}

template <class From, class Elements, class Test>
bool all(const Elements& elements, Test test) {
  bool out = true;
  elements.each([&](Bytes piece) {
    for (size_t i = 0; out && i < piece.size() / sizeof(From); ++i) {
      out = test(element<From>(piece, i));
    }
  });
  return out;
}

std::string as(const char* type, const Hash& hash) { return std::string(type) + " " + hash.hex(); }

/// Integers as the first of u8, i32, i64, u64 that holds them all.
template <class From, class Elements>
std::string integers(const Elements& elements, const std::optional<Hash>& known) {
  const auto fits = [&]<class To>(To) {
    if constexpr (std::is_same_v<To, From>) return true;
    return all<From>(elements, [](From x) { return std::in_range<To>(x); });
  };
  const auto hash = [&]<class To>(To) {
    if (std::is_same_v<To, From> && known) return *known;
    return converted<To, From>(elements);
  };
  if (fits(uint8_t{})) return as("u8", hash(uint8_t{}));
  if (fits(int32_t{})) return as("i32", hash(int32_t{}));
  if (fits(int64_t{})) return as("i64", hash(int64_t{}));
  return as("u64", hash(uint64_t{}));
}

/// Floats as f32 where that holds them all, else as f64; a NaN is the quiet one without a sign.
template <class Elements>
std::string floats32(const Elements& elements, const std::optional<Hash>& known) {
  const bool plain = known && all<float>(elements, [](float x) { return !std::isnan(x); });
  return as("f32", plain ? *known : converted<float, float>(elements));
}

template <class Elements>
std::string floats64(const Elements& elements, const std::optional<Hash>& known) {
  const bool narrow = all<double>(elements, [](double x) {
    return std::isnan(x) || static_cast<double>(static_cast<float>(x)) == x;
  });
  if (narrow) return as("f32", converted<float, double>(elements));
  const bool plain = known && all<double>(elements, [](double x) { return !std::isnan(x); });
  return as("f64", plain ? *known : converted<double, double>(elements));
}

template <class Elements>
std::string text_of(DType dtype, const Elements& elements, const std::optional<Hash>& known) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return as("u8", known ? *known : hash_of_all(elements));
    case DType::kI8:
      return integers<int8_t>(elements, known);
    case DType::kI16:
      return integers<int16_t>(elements, known);
    case DType::kU16:
      return integers<uint16_t>(elements, known);
    case DType::kI32:
      return integers<int32_t>(elements, known);
    case DType::kU32:
      return integers<uint32_t>(elements, known);
    case DType::kI64:
      return integers<int64_t>(elements, known);
    case DType::kU64:
      return integers<uint64_t>(elements, known);
    case DType::kF32:
      return floats32(elements, known);
    case DType::kF64:
      return floats64(elements, known);
    default:  // the bits of short floats
      return std::string(to_string(dtype)) + " " + (known ? *known : hash_of_all(elements)).hex();
  }
}

}  // namespace

std::string elements_text(DType dtype, Bytes bytes, const std::optional<Hash>& known) {
  return text_of(dtype, HeldItem{bytes}, known);
}

std::string elements_text(DType dtype, const ElementPieces& pieces, const Hash& known) {
  return text_of(dtype, Streamed{pieces}, known);
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

}  // namespace rlreplay::format

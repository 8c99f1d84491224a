#include "format/hdf5/types.h"

#include <algorithm>
#include <array>

namespace rlreplay::format::h5 {
namespace {

constexpr size_t kClass = 0x0f;  // of a datatype's first byte; the rest is the version

/// A datatype message behind its first byte: bit field (3), size (4), then for a number its bit
/// offset (2) and precision (2), for a float also where its exponent and mantissa lie.
using Encoding = std::vector<uint8_t>;

Encoding integer(uint8_t size, bool is_signed) {
  const auto bits = static_cast<uint8_t>(8 * size);
  return {static_cast<uint8_t>(is_signed ? 8 : 0), 0, 0, size, 0, 0, 0, 0, 0, bits, 0};
}

const Encoding kFloat32 = {0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0};
const Encoding kFloat64 = {0x20, 63, 0, 8, 0, 0, 0, 0, 0, 64, 0, 52, 11, 0, 52, 255, 3, 0, 0};

bool is(Bytes datatype, uint8_t type_class, const Encoding& encoding) {
  constexpr auto equal = [](std::byte a, uint8_t b) { return std::to_integer<uint8_t>(a) == b; };
  if (datatype.size() < encoding.size() + 1) return false;
  const auto first = std::to_integer<uint8_t>(datatype[0]);
  const int version = first >> 4;
  return (first & kClass) == type_class && version >= 1 && version <= 3 &&
         std::equal(encoding.begin(), encoding.end(), datatype.begin() + 1,
                    [&](uint8_t b, std::byte a) { return equal(a, b); });
}

}  // namespace

std::optional<Element> element_of(Bytes datatype) {
  constexpr uint8_t kFixedPoint = 0, kFloatingPoint = 1;
  for (const uint8_t size : {1, 2, 4, 8}) {
    if (is(datatype, kFixedPoint, integer(size, true)))
      return Element{Element::Kind::kSigned, size};
    if (is(datatype, kFixedPoint, integer(size, false))) {
      return Element{Element::Kind::kUnsigned, size};
    }
  }
  if (is(datatype, kFloatingPoint, kFloat32)) return Element{Element::Kind::kFloat, 4};
  if (is(datatype, kFloatingPoint, kFloat64)) return Element{Element::Kind::kFloat, 8};
  return std::nullopt;
}

std::optional<uint64_t> text_size(Bytes datatype, const File& file) {
  constexpr uint64_t kText = 3, kPadding = 0x0f, kNullPadded = 1, kUtf8 = 1;
  Cursor c(datatype, file);
  const uint64_t first = c.byte(), bits = c.number(3), size = c.number(4);
  const uint64_t version = first >> 4, characters = bits >> 4;
  if ((first & kClass) != kText || version < 1 || version > 3 || characters > kUtf8 ||
      (bits & kPadding) != kNullPadded || size == 0) {
    return std::nullopt;
  }
  return size;
}

std::optional<uint64_t> Dataspace::length() const {
  if (kind != Kind::kSimple || extents.size() != 1 || !fixed) return std::nullopt;
  return extents[0];
}

Dataspace dataspace_of(Bytes message, const File& file) {
  constexpr uint64_t kHasMost = 0x01;
  Cursor c(message, file);
  c.expect(1, 2, "a dataspace of another version");
  const uint64_t rank = c.byte(), flags = c.byte(), kind = c.byte();
  file.expect_flags(flags, kHasMost, "a dataspace with unknown flags");
  file.expect_at_most(rank, 32, "a dataspace of too many dimensions");
  file.expect_at_most(kind, 2, "a dataspace of another kind");
  if (kind != 1) file.expect_equal(rank, 0, "a dataspace without dimensions has some");
  Dataspace out;
  out.kind = static_cast<Dataspace::Kind>(kind);
  for (uint64_t i = 0; i < rank; ++i) out.extents.push_back(c.number(8));
  for (uint64_t i = 0; i < rank && (flags & kHasMost) != 0; ++i) {
    out.fixed = out.fixed && c.number(8) == out.extents[i];
  }
  return out;
}

}  // namespace rlreplay::format::h5

#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/unit_index.h"
#include "src/base/dtype.h"

/// How an index is stored (SPEC.md section 2). Included by unit_index*.cpp only.
namespace rlreplay::format {

static_assert(std::endian::native == std::endian::little, "the index is read as it is stored");

inline constexpr std::array<char, 8> kIndexMagic = {'r', 'l', 'i', 'n', 'd', 'e', 'x', '\n'};
inline constexpr uint32_t kIndexVersion = 1;
inline constexpr uint64_t kMostUnitSize = uint64_t{1} << 50;  // of a unit
inline constexpr uint32_t kHasContent = 1, kHasCounts = 2;

/// The begin of an index: the numbers of units and groups, the bytes of strings and counts.
struct IndexHeader {
  std::array<char, 8> magic = kIndexMagic;
  uint32_t version = kIndexVersion, zero = 0;
  uint64_t units = 0, groups = 0, strings = 0, counts = 0;
  std::array<uint64_t, 2> reserved = {};
};

/// The high half first, as it is printed.
using StoredHash = std::array<uint8_t, 16>;

/// A hash as the index stores it, and back.
[[nodiscard]] inline StoredHash stored_hash(const Hash& hash) {
  StoredHash out;
  for (size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<uint8_t>(hash.high >> (56 - 8 * i));
    out[8 + i] = static_cast<uint8_t>(hash.low >> (56 - 8 * i));
  }
  return out;
}

[[nodiscard]] inline Hash from_stored(const StoredHash& bytes) {
  Hash hash;
  for (size_t i = 0; i < 8; ++i) {
    hash.high = hash.high << 8 | bytes[i];
    hash.low = hash.low << 8 | bytes[8 + i];
  }
  return hash;
}

/// A unit's row. `path_at` counts bytes of the strings, `first_group` entries of groups.
struct UnitIndex::Unit {
  uint64_t path_at = 0;
  uint32_t path_length = 0, group_count = 0;
  uint64_t first_group = 0, size = 0, logical = 0;
  StoredHash hash = {}, content = {};
};

/// A group's entry. `name_at` counts bytes of the strings, `counts_at` of the counts; `unit` is the
/// number of its unit's row.
struct UnitIndex::Group {
  uint64_t name_at = 0;
  uint32_t name_length = 0, flags = 0;
  uint64_t unit = 0;
  StoredHash content = {};
  uint64_t counts_at = 0;
  uint32_t counts_length = 0, zero = 0;
};

inline constexpr uint64_t kHeaderBytes = 64, kUnitBytes = 72, kGroupBytes = 56, kOrderBytes = 8;
static_assert(sizeof(IndexHeader) == kHeaderBytes);

/// The error of an index that breaks its form at byte `at`.
[[nodiscard]] inline FormatError malformed_index(const std::string& what, uint64_t at) {
  return {Rule::kIndexForm, what, kIndexName, {}, at};
}

/// A group of a unit, by which units are found.
struct GroupKey {
  std::string_view kind, group;
  int64_t rank;
  uint64_t unit, entry;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

}  // namespace rlreplay::format

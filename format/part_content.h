#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "format/boxes.h"
#include "src/base/dtype.h"
#include "src/base/hash.h"

/// What a group says of values of which several units, or datasets, hold parts (SPEC.md section 7).
namespace rlreplay::format {

/// A part of a value.
struct Part {
  std::string key;  // the sample's id; empty: of no sample
  std::string dataset;
  uint64_t begin = 0;  // its first element there
  DType dtype = DType::kU8;
  Box box;
  std::string attributes;  // as an item's line has them
};

/// A part and the number of its unit among those of the group.
struct UnitPart {
  size_t unit = 0;
  const Part* part = nullptr;
};

/// How the elements of parts are read.
struct PartSource {
  /// All elements of a dataset, until the next call.
  std::function<std::span<const std::byte>(size_t unit, const std::string& dataset)> read;
  /// Called before so many bytes more are held of a dataset; may throw.
  std::function<void(size_t unit, const std::string& dataset, uint64_t bytes)> hold;
};

/// The items of one field: of a value that is there whole and nowhere said differently one as if it
/// had never been cut, of others one a part.
[[nodiscard]] std::vector<Hash> part_items(std::span<const UnitPart> parts,
                                           const PartSource& source);

}  // namespace rlreplay::format

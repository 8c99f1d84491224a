#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "format/hdf5/file.h"
#include "format/hdf5_file.h"

namespace rlreplay::format::h5 {

/// The element that a datatype message describes; nothing for one outside of the list.
/// Source: HDF5 File Format Specification, version 3, "The Datatype Message".
[[nodiscard]] std::optional<Element> element_of(Bytes datatype);

/// The size of a text of fixed length, null-padded; nothing for another type.
[[nodiscard]] std::optional<uint64_t> text_size(Bytes datatype, const File& file);

/// How many elements an object has: one of a scalar, none of a null, else the product of extents.
/// Source: HDF5 File Format Specification, version 3, "The Dataspace Message".
struct Dataspace {
  enum class Kind : uint8_t { kScalar = 0, kSimple = 1, kNull = 2 };
  Kind kind = Kind::kScalar;
  std::vector<uint64_t> extents;
  bool fixed = true;  // no dimension can grow

  /// The length of what is one-dimensional and of fixed length.
  [[nodiscard]] std::optional<uint64_t> length() const;
};

/// Errors: FormatError kContainer.
[[nodiscard]] Dataspace dataspace_of(Bytes message, const File& file);

}  // namespace rlreplay::format::h5

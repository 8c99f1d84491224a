#pragma once

#include <optional>
#include <string>
#include <vector>

#include "format/hdf5/object_header.h"
#include "format/hdf5_file.h"

namespace rlreplay::format::h5 {

/// An attribute of an object. One of a type that is not read keeps its name: none may occur twice.
/// Source: HDF5 File Format Specification, version 3, "The Attribute Message".
struct NamedAttribute {
  std::string name;
  std::optional<Attribute> value;  // nothing for one of a type that no attribute has
};

/// The attributes of an object, those in its header and those in its heap, sorted by name.
/// Errors: FormatError kContainer, also for two of one name; kObjectLimit.
[[nodiscard]] std::vector<NamedAttribute> attributes_of(File& file, const ObjectHeader& object,
                                                        const Limits& limits);

}  // namespace rlreplay::format::h5

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/hdf5/object_header.h"

namespace rlreplay::format::h5 {

/// A link of a group; of a soft or external one nothing but the name is read.
/// Source: HDF5 File Format Specification, version 3, "The Link Message".
struct Link {
  std::string name;
  bool hard = true;
  uint64_t target = kNowhere;  // of a hard link: the address of an object's header
};

/// The links of a group, those in its header and those in its heap, sorted by name.
/// Errors: FormatError kContainer, also for more than `most` or two of one name.
[[nodiscard]] std::vector<Link> links_of(File& file, const ObjectHeader& group, size_t most);

}  // namespace rlreplay::format::h5

#pragma once

#include <cstdint>
#include <vector>

#include "format/hdf5/file.h"

namespace rlreplay::format::h5 {

/// What the records of a B-tree are.
enum class RecordType : uint8_t { kHugeObject = 1, kLinkName = 5, kAttributeName = 8 };

/// All records of a version-2 B-tree, each of `size` bytes, in no order.
/// Errors: FormatError kContainer, also for more than `most` records.
std::vector<Bytes> records_of(File& file, uint64_t address, RecordType type, size_t size,
                              size_t most);

}  // namespace rlreplay::format::h5

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/hdf5/file.h"

namespace rlreplay::format::h5 {

/// What the records of a B-tree are.
enum class RecordType : uint8_t {
  kHugeObject = 1,
  kLinkName = 5,
  kLinkOrder = 6,
  kAttributeName = 8,
  kAttributeOrder = 9,
};

/// All records of a version-2 B-tree, each of `size` bytes, in their order.
/// Errors: FormatError kContainer, also for more than `most` records.
/// Source: HDF5 File Format Specification, version 3, "Version 2 B-trees".
[[nodiscard]] std::vector<Bytes> records_of(File& file, uint64_t address, RecordType type,
                                            size_t size, size_t most);

/// The names that the records of a B-tree lead to, one after another: sorted by their checksums,
/// then by themselves, or nobody who searches finds them.
class NameOrder {
 public:
  /// Errors: kContainer, also for another checksum than the name's.
  void next(const File& file, uint64_t checksum, const std::string& name);

 private:
  std::optional<std::pair<uint64_t, std::string>> last_;
};

}  // namespace rlreplay::format::h5

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/faults.h"
#include "format/hdf5_file.h"
#include "format/unit.h"

namespace rlreplay::format {

/// The dataset as its attributes describe it, where storage and description agree; otherwise a
/// fault, and a default in the place of what it is about.
[[nodiscard]] StoredDataset described(const h5::DatasetEntry& entry, Faults& faults);

/// What a unit says of itself: the format, a version that can be read, and its own path.
void check_root(const h5::Contents& contents, const std::string& path, Faults& faults);

/// The decoded bytes of all datasets, `most` at most.
[[nodiscard]] uint64_t sum_of(const std::vector<StoredDataset>& datasets, uint64_t most,
                              Faults& faults);

/// Errors: FormatError kContent where a unit is not what its record says.
void check_announced(const UnitRecord& record, const std::vector<StoredDataset>& datasets,
                     uint64_t size);

}  // namespace rlreplay::format

#pragma once

#include <string>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/unit.h"
#include "format/unit_reader.h"

namespace rlreplay::format {

/// A stored tensor, decoded, to be stored again. Errors: as of DumpReader::read.
[[nodiscard]] Dataset copy_of(const DumpReader& dump, const UnitReader& unit,
                              const StoredDataset& stored);

/// A stored tensor, decoded, to be stored again as it is: as a difference from the same base where
/// it is one. Errors: as of DumpReader::read.
[[nodiscard]] Dataset copy_as_stored(const DumpReader& dump, const UnitReader& unit,
                                     const StoredDataset& stored);

/// A unit as its file has it, to be stored in another dump with nothing of it decoded or packed
/// anew. `dump`: the folder that holds it. Errors: FormatError kUnitMissing to kUnitHash.
[[nodiscard]] EncodedUnit stored_unit(const std::string& dump, const UnitRecord& record);

}  // namespace rlreplay::format

#pragma once

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/unit_reader.h"

namespace rlreplay::format {

/// A stored tensor, decoded, to be stored again. Errors: as of DumpReader::read.
Dataset copy_of(const DumpReader& dump, const UnitReader& unit, const StoredDataset& stored);

/// A stored tensor, decoded, to be stored again as it is: as a difference from the same base where
/// it is one. Errors: as of DumpReader::read.
Dataset copy_as_stored(const DumpReader& dump, const UnitReader& unit, const StoredDataset& stored);

}  // namespace rlreplay::format

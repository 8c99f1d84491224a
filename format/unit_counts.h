#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"

namespace rlreplay::format {

/// A dataset of a group, decoded.
struct CountedTable {
  DType dtype = DType::kU8;
  std::span<const std::byte> bytes;
  std::string columns;  // its attribute, where it has one
};
using CountedTables = std::map<std::string, CountedTable, std::less<>>;  // by name in the group

/// Whether counts need the elements of a dataset of this name, beyond how many of them are finite.
[[nodiscard]] bool is_counted(std::string_view name);

/// How many elements are no finite numbers: of floats of 2, 4 and 8 bytes, else 0.
[[nodiscard]] uint64_t count_nonfinite(DType dtype, std::span<const std::byte> bytes);

/// Whether non-finite elements of a dataset count: those of events are of their own.
[[nodiscard]] bool counts_nonfinite(std::string_view name);

/// What SPEC.md section 2 counts of a group, as canonical JSON. `names`: of all of its datasets;
/// `tables`: those of them that `is_counted`. What is not sound counts as absent.
[[nodiscard]] std::string counts_json(std::string_view kind, std::span<const std::string> names,
                                      const CountedTables& tables, uint64_t nonfinite);

/// The counts of each group of a unit that is written, by the group's name.
[[nodiscard]] std::map<std::string, std::string> unit_counts(std::string_view kind,
                                                             std::span<const Dataset> datasets);

}  // namespace rlreplay::format

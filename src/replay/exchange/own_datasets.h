#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/foreign/tree.h"

/// Datasets that a framework's file has no field for, in a part of it that the framework does not
/// look at: the value of the key `rlreplay`, a dict.
namespace rlreplay::replay {

using WantedName = std::function<bool(const std::string& name)>;

/// The datasets of a unit's group whose names (below the group) are wanted. They own their bytes.
[[nodiscard]] std::vector<format::Dataset> read_datasets(const format::DumpReader& dump,
                                                         const format::UnitReader& unit,
                                                         const std::string& group,
                                                         const WantedName& wanted);

/// Adds datasets as a list of dicts: name, dtype, shape, attributes, and data, a tensor of bytes.
[[nodiscard]] foreign::Value add_own_datasets(foreign::Tree& tree,
                                              std::span<const format::Dataset> datasets,
                                              const std::string& group);

/// The datasets of a list that add_own_datasets made, below `group` again. They own their bytes.
/// Errors: kCorrupt where the list is not what add_own_datasets makes.
[[nodiscard]] std::vector<format::Dataset> read_own_datasets(const foreign::Tree& tree,
                                                             foreign::Value list,
                                                             const std::string& group);

/// Holds the unit that is made with such datasets to the rules of a reader (format/meaning.h),
/// before it is stored. Errors: kCorrupt, naming the dataset.
void check_with_own(const std::string& unit, std::span<const format::Dataset> datasets);

/// A value of the dict under `rlreplay`; null where there is none.
[[nodiscard]] const foreign::Value* find_own(const foreign::Tree& tree, foreign::Value root,
                                             std::string_view key);

}  // namespace rlreplay::replay

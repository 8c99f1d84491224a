#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "format/rule.h"
#include "format/unit_reader.h"
#include "src/base/dtype.h"

namespace rlreplay::format {

/// What values of a dataset must satisfy beyond their type.
enum class Values { kAny, kMask, kOffsets };

/// One row of the tables of SPEC.md: a dataset of known meaning.
struct KnownDataset {
  std::string_view kind;    // of the unit
  std::string_view name;    // below the group
  std::string_view dtypes;  // separated by spaces
  /// Separated by spaces: a letter stands for one number in the whole group, `S+1` for one more
  /// than S, digits for themselves.
  std::string_view shape;
  Values values = Values::kAny;
  /// kOffsets: the letter that the last offset equals.
  char total = 0;
};

std::span<const KnownDataset> known_datasets();

/// Checks the datasets of a unit that the tables know: dtypes, shapes that agree with one another,
/// and values. Reads masks and offsets only.
void check_meaning(const UnitReader& unit, std::vector<Problem>& problems);

}  // namespace rlreplay::format

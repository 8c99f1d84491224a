#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/base/dtype.h"

namespace rlreplay::format {

/// What values of a dataset must satisfy beyond their type.
enum class Values {
  kAny,
  kMask,           // 0 or 1
  kSampleIds,      // none is there twice; a rollout's ascend
  kOffsets,        // ascend from 0 to the number that `total` stands for
  kPromptLengths,  // none is longer than its sample
  kTokens,         // none is negative
  kFinish,         // a code of the table
  kText,           // UTF-8, lone surrogates of foreign texts in three bytes
  kRoles,          // a code of the table
  kTruth,          // 0, 1 or 255: not known
  kCalls,          // each lies within its sample, behind the one before
  kCoordinates,    // a rank among how many, a row an axis
  kSlices,         // lie within their samples
  kNamed,          // `columns` has a name for each place of the last axis
};

/// Said of a dataset that has no row in the tables of SPEC.md, but is in its text.
inline constexpr std::string_view kElsewhere = "-";

/// A dataset of known meaning. The rules, the readers, strip, the content root and Python go by
/// this table, and those of SPEC.md are printed from it.
struct KnownDataset {
  std::string_view kind;    // of the unit
  std::string_view name;    // below the group
  std::string_view dtypes;  // separated by spaces
  /// Separated by spaces: a letter stands for one number in the whole group, `S+1` for one more
  /// than S, digits for themselves.
  std::string_view shape;
  /// What SPEC.md says it is; empty where that is said with the dataset before it.
  std::string_view said;
  Values values = Values::kAny;
  /// kOffsets: the letter that the last offset equals.
  char total = 0;
  /// The column that it is a part of, where that has another name: `nucleus` of `nucleus_size`.
  std::string_view part_of = {};
};

/// The whole table. A dataset may have a row for each kind of unit; NAME_present has none.
[[nodiscard]] std::span<const KnownDataset> known_datasets();

/// The row for a dataset of a unit, by the name below its group; null when the tables know none.
[[nodiscard]] const KnownDataset* find_known(std::string_view kind, std::string_view name);

/// The dataset that says where each sample's part of the axis `letter` begins; empty: none does.
[[nodiscard]] std::string offsets_for(std::string_view kind, char letter);

/// How many dimensions a row's `shape` names.
[[nodiscard]] size_t dimensions_of(const KnownDataset& row);

/// What errors say of a dataset of another dtype, or of other dimensions, than its row.
[[nodiscard]] std::string other_dtype(DType found, std::string_view expected);
[[nodiscard]] std::string other_dimensions(const KnownDataset& row);

}  // namespace rlreplay::format

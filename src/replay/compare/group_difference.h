#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/group_name.h"
#include "format/unit_reader.h"
#include "src/base/hash.h"
#include "src/replay/compare/field_difference.h"

namespace rlreplay::replay {

/// A part of a dump's content, of one kind: a rollout ("rollout"), a step ("train") or the state
/// before a step ("weights").
struct ContentGroup {
  std::optional<format::GroupName> number;  // none for a name of another form
  std::string kind, name;

  /// `step 0 of rollout 3`
  std::string text() const;
  /// The order in which a run makes them: a rollout, then for each of its steps the state before it
  /// and what it trained on.
  friend bool operator<(const ContentGroup& a, const ContentGroup& b);
};

/// A group as one dump has it.
struct GroupUnits {
  const format::DumpReader& dump;
  std::vector<format::UnitReader> units;
  std::map<std::string, Hash> fields;  // hashes of what it says, by name
};

/// Sees that a group's units break no rule of what values mean and that its samples can be read,
/// whatever their hashes: two dtypes may say the same, and of some datasets no hash says anything.
/// Errors: FormatError kMeaning, kDataLimit.
void check_group(const ContentGroup& group, const GroupUnits& of);

/// Compares the values of the fields whose hashes differ, field by field. `assembled`: of a
/// framework's files, whose ranks were put together; none of them is this dump's.
/// Returns whether it differs in nothing but events that only one of the dumps recorded.
[[nodiscard]] bool compare_group(const ContentGroup& group, const GroupUnits& a,
                                 const GroupUnits& b, bool assembled, FieldComparison& values);

}  // namespace rlreplay::replay

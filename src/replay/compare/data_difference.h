#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/group_name.h"
#include "src/replay/compare/field_difference.h"

namespace rlreplay::replay {

/// How two dumps are compared: to which bounds, how far, and what is taken on trust.
struct DiffOptions {
  /// The largest difference that counts as none, by field: "advantages" or "train/advantages".
  FieldComparison::Tolerances tolerance;
  /// The last rollout or step that is looked at; none: all are.
  std::optional<format::GroupName> last = {};
  /// Leave units unread whose recorded hashes are equal: damage in them is not seen.
  bool trust_hashes = false;
};

/// An option that counts, as both dumps have it; empty where one has none.
struct OptionDifference {
  std::string name, a, b;
};

/// What two dumps differ in.
struct DataDifference {
  /// A rollout ("rollout"), a step ("train") or the state before one ("weights").
  struct Group {
    std::string kind;
    std::optional<format::GroupName> number;  // none for a name of another form
    bool unrecorded = false;  // in nothing but events that only one of them recorded
  };
  /// Whether the content roots are equal: options, rollouts, steps, states and contradictions are
  /// the same, to the bit.
  bool identical = true;
  /// Whether no column or scalar differs beyond the tolerances, and neither dump has more of them.
  bool within_tolerance = true;
  std::vector<OptionDifference> options;
  /// The fields of which something was compared, in the order of a step's phases.
  std::vector<FieldDifference> fields;
  /// The first rollout or step that differs, and there the first field.
  std::optional<ValueDifference> first;
  std::string first_field;
  /// Rollouts, steps and states that only one dump has ("rollout 3 is only in A"), and what the
  /// files of only one say against each other.
  std::vector<std::string> only;
  /// Equal rollouts and steps whose samples stand in another order: "step 0 of rollout 3".
  std::vector<std::string> reordered;
  uint64_t groups = 0;        // in both
  uint64_t groups_equal = 0;  // of these, stored with equal hashes: not decoded
  uint64_t bytes_read = 0;    // stored bytes of the units that were decoded
  /// The groups that both have and that differ, in the order in which a run makes them.
  std::vector<Group> groups_differing;
};

/// Compares all that is part of a dump's content, whatever the numbers of ranks and however the
/// dumps are stored. The bytes of every unit are held to their hash; units of equal content are not
/// decoded. Extensions, which hold times and other volatile things of foreign dumps, are not looked
/// at.
/// Errors: FormatError where a unit is not sound; kUsage for a tolerance of a field that neither
/// dump has, naming those that there are.
[[nodiscard]] DataDifference compare_data(const format::DumpReader& a, const format::DumpReader& b,
                                          const DiffOptions& options = {});

}  // namespace rlreplay::replay

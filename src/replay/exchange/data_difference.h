#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// The distance of two floats on the line of all floats of their width; -0 and +0 are one apart.
/// Nothing where one of them is NaN and their bits differ.
std::optional<uint64_t> ulps_between(float a, float b);
std::optional<uint64_t> ulps_between(double a, double b);

/// A value of a sample in two dumps.
struct ValueDifference {
  int64_t rollout_id = 0;
  std::optional<int64_t> step_id;  // of training data
  std::optional<uint64_t> sample;  // id; none of a step's scalars
  std::optional<uint64_t> token;   // place in the whole sample, prompt included
  std::string a, b;                // as text; empty where absent
  std::optional<uint64_t> ulps;    // of floats
  std::optional<int64_t> rank;     // that holds the sample in A, else in B; none in a rollout
};

/// What two dumps say of one field: "rollout/tokens", "train/advantages".
struct FieldDifference {
  std::string field;
  uint64_t compared = 0;   // values that both have
  uint64_t different = 0;  // of these, beyond the tolerance
  uint64_t missing = 0;    // samples where only one of them has any
  double max_difference = 0;
  /// How many of the different floats are 1, 2-3, 4-7, ... ulps apart; the last one counts the rest
  /// and those that cannot be counted.
  std::array<uint64_t, 24> ulps{};
  std::optional<ValueDifference> first;

  bool is_equal() const { return different == 0 && missing == 0; }
};

struct DiffOptions {
  /// The largest difference that counts as none, by field; the part before the slash may be left
  /// out.
  std::map<std::string, double, std::less<>> tolerance;
};

struct DataDifference {
  bool identical = true;
  /// In the order of a step's phases; those of which something was compared.
  std::vector<FieldDifference> fields;
  /// The first rollout or step that differs, and there the first field.
  std::optional<ValueDifference> first;
  std::string first_field;
  /// Rollouts and steps that only one dump has: "rollout 3 is only in A".
  std::vector<std::string> only;
  uint64_t groups = 0;          // rollouts and steps in both
  uint64_t groups_equal = 0;    // of these, known to be equal from their hashes, unread
  uint64_t bytes_read = 0;      // stored bytes of the units that were opened
  uint64_t datasets_equal = 0;  // in those, known to be equal from their hashes, undecoded
};

/// Compares what was generated and what was trained on, sample by sample, whatever the numbers of
/// ranks and however the dumps are packed. Units with equal content are not read, and of the others
/// no column that is equal by its hash is decoded. Extensions, where
/// times and other volatile things of foreign dumps lie, are not looked at.
/// Errors: FormatError where a unit that must be read is not sound.
DataDifference compare_data(const format::DumpReader& a, const format::DumpReader& b,
                            const DiffOptions& options = {});

}  // namespace rlreplay::replay

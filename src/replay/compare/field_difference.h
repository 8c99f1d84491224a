#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/replay/compare/sample_table.h"

namespace rlreplay::replay {

/// Where two dumps hold another value.
struct ValueDifference {
  int64_t rollout_id = 0;
  std::optional<int64_t> step_id;  // of training data
  std::optional<uint64_t> sample;  // id; none of a step's scalars, events and states
  std::optional<uint64_t> token;   // place in the whole sample, prompt included
  std::string tensor;              // of events and states: its name
  std::string a, b;                // as text; empty where absent
  std::optional<double> apart;     // |a - b| of numbers
  std::optional<uint64_t> ulps;    // of floats
  std::optional<int64_t> rank;     // that holds the sample in A, else in B; none in a rollout
};

/// Whether it is of events that only one dump recorded, which says nothing of what was computed.
[[nodiscard]] bool is_unrecorded(const std::string& field, const ValueDifference& at);

/// `rollout 0, step 1, sample 3, token 7`
[[nodiscard]] std::string place_text(const ValueDifference& at);

/// What two dumps say of one field: "rollout/tokens", "train/advantages", "step/loss",
/// "weights/parameters", "train/events".
struct FieldDifference {
  std::string field;
  bool judged = true;      // by a tolerance; events and states are compared to the bit
  uint64_t compared = 0;   // values that both have, or that one has beyond the other's end
  uint64_t different = 0;  // of these, beyond the tolerance
  uint64_t tolerated = 0;  // of these, of other bits within the tolerance
  uint64_t missing = 0;    // samples, scalars, tensors where only one of them has any
  uint64_t nan = 0;        // values compared of which one or both are no numbers
  double max_difference = 0;
  /// How many of the different floats are 1, 2-3, 4-7, ... ulps apart; the last one counts the rest
  /// and those that cannot be counted.
  std::array<uint64_t, 24> ulps{};
  std::optional<ValueDifference> first;  // an unrecorded event only where there is no other

  [[nodiscard]] bool is_equal() const { return different == 0 && missing == 0; }
};

/// Compares values, field by field.
class FieldComparison {
 public:
  using Tolerances = std::map<std::string, double, std::less<>>;
  explicit FieldComparison(Tolerances tolerances) : tolerances_(std::move(tolerances)) {}

  /// What is compared next; `place` has no values.
  void at(ValueDifference place) { place_ = std::move(place); }

  FieldDifference& field(const std::string& name, bool judged = true);
  void compare(FieldDifference& field, const std::optional<FieldValues>& a,
               const std::optional<FieldValues>& b);
  /// Rows of named columns, each column by its name: a field below `field`.
  void compare_columns(const std::string& field, const std::optional<FieldValues>& a,
                       const std::optional<FieldValues>& b);
  /// Something that only one of them has.
  void missing(FieldDifference& field, bool in_a, const std::string& what);
  /// A tensor of which one lacks a part: what each holds.
  void missing_part(FieldDifference& field, const std::string& a, const std::string& b);
  /// Something that differs as a whole.
  void differs(FieldDifference& field, const std::string& a, const std::string& b);

  std::vector<FieldDifference> fields;
  std::optional<ValueDifference> first;
  std::string first_field;

 private:
  template <class X, class Y>
  void compare_lists(FieldDifference& of, const FieldValues& where, X x, Y y);
  template <class X, class Y>
  void compare_values(FieldDifference& of, std::optional<uint64_t> token, X x, Y y);
  double tolerance_of(const std::string& name) const;
  void note(FieldDifference& of, ValueDifference difference);

  Tolerances tolerances_;
  ValueDifference place_;
  std::map<std::string, size_t, std::less<>> by_name_;  // of `fields`
};

}  // namespace rlreplay::replay

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/events/event_record.h"

namespace rlreplay::replay {

/// A number as it was recorded, of any type of the table of events.
struct RecordedValue {
  DType dtype = DType::kF32;
  uint64_t bits = 0;

  double number() const;
  /// The bits in as many hexadecimal digits as the type has.
  std::string hex_bits() const;
  /// The number as reports write it: the shortest decimal that reads back.
  std::string text() const;
};

/// The element at a flat index of an event that holds its values.
[[nodiscard]] RecordedValue recorded_value(const engine::EventRecord& event, int64_t index);

/// How two records of one event differ.
struct EventDifference {
  engine::Event event;
  int rank = 0;  // of the second record
  /// Rows that differ or that only one side has, in order; empty where rows are not known.
  std::vector<engine::Element> rows;
  bool rows_known = false;
  /// The first element that differs, in order, where both sides have values.
  struct Value {
    engine::Element at;
    int64_t index = 0;  // flat, in the first record
    RecordedValue a, b;
    std::optional<int64_t> ulps;  // quanta of integers; none where one is not a number
  };
  std::optional<Value> first;
  int64_t elements = 0;                 // that differ, where both sides have values
  std::optional<int64_t> largest_ulps;  // of these, without sign
  /// How many of them lie 2^i to 2^(i+1) - 1 ulps apart.
  std::array<int64_t, 64> ulps_by_power{};
  bool missing = false;    // only one side has the event
  bool per_token = false;  // its rows are tokens
};

/// The records of one event in both, null where one has none; in canonical order, events of other
/// tables than ours behind, as they are stored.
using EventPair = std::pair<const engine::EventRecord*, const engine::EventRecord*>;
[[nodiscard]] std::vector<EventPair> paired_events(const engine::StepEvents& a,
                                                   const engine::StepEvents& b);

/// The difference of two records of one event; nothing if they are the same.
[[nodiscard]] std::optional<EventDifference> compare_event(const engine::StepEvents& a,
                                                           const engine::EventRecord& in_a,
                                                           const engine::StepEvents& b,
                                                           const engine::EventRecord& in_b);

/// The first value that differs in one row of an event; nothing where none does, or one record has
/// no values.
[[nodiscard]] std::optional<EventDifference::Value> first_value_in(const engine::StepEvents& a,
                                                                   const engine::EventRecord& in_a,
                                                                   const engine::StepEvents& b,
                                                                   const engine::EventRecord& in_b,
                                                                   const engine::Element& row);

/// How much of an event is kept beside its digest.
[[nodiscard]] int detail_of(const engine::EventRecord& event);

/// What two records of one event differ in, beginning with what is seen first, as "digest"; empty
/// if in nothing that both have.
[[nodiscard]] std::string differing_part(const engine::StepEvents& a,
                                         const engine::EventRecord& in_a,
                                         const engine::StepEvents& b,
                                         const engine::EventRecord& in_b);

}  // namespace rlreplay::replay

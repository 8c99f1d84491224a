#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/engine/rank_groups.h"
#include "src/events/event_rows.h"

/// Whose numbers a step's events are in a layout: pure functions of what ranks hold (shard.h).
namespace rlreplay::engine {

/// Numbers of an event, as far as they are known: an element, a row, or all.
struct EventNumbers {
  Event event;
  std::optional<Element> row;
  bool column = false;  // whether the row's column is known, too
};

/// A step as a layout deals it.
struct DealtStep {
  const ModelConfig& model;
  Layout layout;
  int64_t leaf = 0;                      // tokens
  std::span<const SampleShape> samples;  // of the step, in its order
};

/// The ranks whose numbers these are, ascending: those that compute rows, and of a parameter's
/// tensor those that answer for its parts. Of numbers that several compute alike it is the first.
[[nodiscard]] std::vector<int> ranks_of(const DealtStep& step, const EventNumbers& numbers);

/// The groups, of more than one rank, that exchange what the event is computed from.
[[nodiscard]] std::vector<RankGroup> exchanged_before(const DealtStep& step, const Event& event);

}  // namespace rlreplay::engine

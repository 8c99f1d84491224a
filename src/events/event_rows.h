#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/sample.h"
#include "src/events/event_record.h"

namespace rlreplay::engine {

/// What says which rows the events of a rollout and its steps have.
struct SampleShape {
  uint64_t id = 0;
  int64_t prompt_length = 0;
  int64_t length = 0;  // prompt and response
};
[[nodiscard]] std::vector<SampleShape> sample_shapes(std::span<const Sample> samples);

/// The rows of a per-token event, in order: of all tokens, of those that go through the model while
/// they are generated (all but a sample's last), or of the response's.
[[nodiscard]] RowSet event_rows(const EventSpec& spec, std::span<const SampleShape> samples);

/// The number of rows of all runs of a set.
[[nodiscard]] int64_t row_count(const RowSet& rows);

/// The row at an index into a set; none outside of it.
[[nodiscard]] std::optional<Element> row_at(const RowSet& rows, int64_t index);

/// The index of a row; -1 for one that is not in the set.
[[nodiscard]] int64_t index_of(const RowSet& rows, uint64_t sample, int64_t position);

}  // namespace rlreplay::engine

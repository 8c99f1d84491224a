#pragma once

#include <cstdint>
#include <vector>

#include "src/events/event_record.h"

namespace rlreplay::engine {

/// In which order the rows of tensors came. Most tensors of a step get their rows in the same
/// calls, so a history is a chain of calls, and chains share their beginnings.
class RowHistory {
 public:
  static constexpr int kNone = -1;

  /// The history that continues `before` by these rows.
  int extend(int before, const RowCoordinates& coordinates, int64_t count);

  /// The rows of a history in order.
  struct Sorted {
    RowSet rows;
    std::vector<int64_t> order;  // order[i]: which row, as they came, is row i
  };
  /// Errors: kInternal where a row came twice.
  Sorted sorted(int history) const;

 private:
  struct Row {
    uint64_t sample;
    int64_t position;
    friend auto operator<=>(const Row&, const Row&) = default;
  };
  struct Call {
    int before;
    std::vector<Row> rows;
  };
  std::vector<Call> calls_;
};

}  // namespace rlreplay::engine

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "src/base/thread_pool.h"
#include "src/engine/group.h"
#include "src/engine/shard.h"
#include "src/events/events.h"

namespace rlreplay::engine {

/// Shows one sink what the ranks of a step show, as one rank would: each row once and whole,
/// whatever ranks hold its columns. Parameters are left to whoever puts them together, but for
/// parts. A sink that changes rows would change a copy: it must not be given.
class RankEvents {
 public:
  RankEvents(EventSink& inner, const ModelConfig& config) : inner_(inner), config_(config) {}

  /// The sink of a rank; used by that rank alone, and valid as long as this is.
  std::unique_ptr<EventSink> sink(const Layout& layout, const RankPlace& place);

 private:
  friend class RankSink;

  /// Columns [first, first + count) of `view` stand at `whole` in rows of `width`.
  struct Columns {
    int64_t first = 0, count = 0, whole = 0, width = 0;
  };
  /// Rows of which some columns have come.
  struct Parts {
    std::vector<float> values;
    int64_t columns = 0;
  };
  using Key = std::tuple<Event, uint64_t, int32_t, int64_t>;  // event, first row, number of rows

  void rows(const Event& event, const EventView& values, const RowCoordinates& coordinates);
  void columns(const Event& event, const EventView& values, const RowCoordinates& coordinates,
               const Columns& at);
  void whole(const Event& event, const EventView& values);
  void part(const Event& event, int rank, const EventView& values, int64_t row, int64_t column);
  void restart();

  EventSink& inner_;
  const ModelConfig& config_;
  std::mutex mutex_;
  std::map<Key, Parts> parts_;
};

}  // namespace rlreplay::engine

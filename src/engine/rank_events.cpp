#include "src/engine/rank_events.h"

#include <cstring>

#include "src/base/error.h"
#include "src/engine/residual_stream.h"
#include "src/events/table.h"

namespace rlreplay::engine {

/// What one rank shows of a step. Whether rows are wanted is the same on each rank, so where one
/// gives its columns of a row all do, and the row becomes whole.
class RankSink : public EventSink {
 public:
  RankSink(RankEvents& events, const Layout& layout, const RankPlace& place)
      : events_(events),
        layout_(layout),
        place_(place),
        shard_(make_shard(events.config_, layout, place)) {}

  bool wants(const Event& event) const override {
    const EventSpec* spec = find_event(event);
    check(spec != nullptr, "an event is not in the table");
    if (is_parameter(spec->kind)) return false;
    if (!is_per_token(spec->kind) && !is_first()) return false;
    return events_.inner_.wants(event);
  }

  void rows(const Event& event, const EventView& values, const RowCoordinates& at) override {
    if (values.rows == 0) return;
    const RankEvents::Columns columns = columns_of(find_event(event)->width);
    if (columns.width > 0 && layout_.tp > 1) {
      if (columns.count > 0) events_.columns(event, values, at, columns);
    } else if (place_.tp == 0 || (columns.width == 0 && layout_.sp && of_stream(event.op))) {
      events_.rows(event, values, at);
    }
  }

  void whole(const Event& event, const EventView& values) override { events_.whole(event, values); }
  bool wants_part(const Event& event, int rank) const override {
    return events_.inner_.wants_part(event, rank);
  }
  void part(const Event& event, int rank, const EventView& values, int64_t row,
            int64_t column) override {
    events_.part(event, rank, values, row, column);
  }
  void restart() override {
    if (is_first()) events_.restart();
  }

 private:
  bool is_first() const { return place_ == RankPlace{}; }

  /// The rank's own columns of rows that tensor parallelism cuts; a width of 0 where it does not.
  RankEvents::Columns columns_of(Width width) const {
    const ModelConfig& c = events_.config_;
    const auto cut = [](kernels::Range held, kernels::Range owned, int64_t all, int64_t size) {
      return RankEvents::Columns{(owned.begin - held.begin) * size, owned.size() * size,
                                 owned.begin * size, all * size};
    };
    switch (width) {
      case Width::kOne:
      case Width::kHidden:
        return {};
      case Width::kQueries:
        return cut(shard_.heads, shard_.heads, c.heads, c.head_dim);
      case Width::kHeads:
        return cut(shard_.heads, shard_.heads, c.heads, 1);
      case Width::kKeys:
        return cut(shard_.kv_heads, shard_.kv_owned, c.kv_heads, c.head_dim);
      case Width::kKvHeads:
        return cut(shard_.kv_heads, shard_.kv_owned, c.kv_heads, 1);
      case Width::kIntermediate:
        return cut(shard_.intermediate, shard_.intermediate, c.intermediate, 1);
    }
    return {};
  }

  RankEvents& events_;
  const Layout layout_;
  const RankPlace place_;
  const Shard shard_;
};

std::unique_ptr<EventSink> RankEvents::sink(const Layout& layout, const RankPlace& place) {
  return std::make_unique<RankSink>(*this, layout, place);
}

void RankEvents::rows(const Event& event, const EventView& values,
                      const RowCoordinates& coordinates) {
  const std::lock_guard lock(mutex_);
  inner_.rows(event, values, coordinates);
}

void RankEvents::columns(const Event& event, const EventView& values,
                         const RowCoordinates& coordinates, const Columns& at) {
  check(values.dtype == DType::kF32, "rows that are cut are numbers of 32 bits");
  const std::lock_guard lock(mutex_);
  const Key key{event, coordinates.sample[0], coordinates.position[0], values.rows};
  Parts& parts = parts_[key];
  parts.values.resize(static_cast<size_t>(values.rows * at.width));
  for (int64_t r = 0; r < values.rows; ++r) {
    std::memcpy(parts.values.data() + r * at.width + at.whole, values.at(r, at.first),
                static_cast<size_t>(at.count) * sizeof(float));
  }
  parts.columns += at.count;
  if (parts.columns < at.width) return;
  const kernels::Matrix<float> whole(parts.values.data(), values.rows, at.width);
  inner_.rows(event, EventView::of(whole), coordinates);
  parts_.erase(key);
}

void RankEvents::whole(const Event& event, const EventView& values) {
  const std::lock_guard lock(mutex_);
  inner_.whole(event, values);
}

void RankEvents::part(const Event& event, int rank, const EventView& values, int64_t row,
                      int64_t column) {
  const std::lock_guard lock(mutex_);
  inner_.part(event, rank, values, row, column);
}

void RankEvents::restart() {
  const std::lock_guard lock(mutex_);
  parts_.clear();
  inner_.restart();
}

}  // namespace rlreplay::engine

#pragma once

#include <chrono>
#include <map>
#include <string>

#include "src/events/events.h"

namespace rlreplay::bench {

/// Where a step's time goes, seen from its events: what passes before an event belongs to the
/// operation that emits it. It wants no event's values.
class PhaseClock : public engine::EventSink {
 public:
  /// Forgets what was before.
  void begin();
  /// What passed since the last event came after all events: `rest`.
  void end_of_work();

  /// A table on stderr, largest share first; seconds are those of one of `repetitions`.
  void print(const std::string& title, int repetitions) const;

  [[nodiscard]] bool wants(const engine::Event& event) const override;
  void rows(const engine::Event&, const engine::EventView&,
            const engine::RowCoordinates&) override {}
  void whole(const engine::Event&, const engine::EventView&) override {}
  void restart() override {}

 private:
  void add(const std::string& name) const;

  // `wants` is where a sink first hears of an event; asking changes nothing but these.
  mutable std::map<std::string, double> seconds_;
  mutable std::chrono::steady_clock::time_point last_;
};

}  // namespace rlreplay::bench

#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "src/base/model_config.h"
#include "src/engine/packed.h"
#include "src/engine/rank_mesh.h"
#include "src/events/events.h"

namespace rlreplay::engine {

/// Sends what a rank shows to rank 0. A part that rank 0 changes is changed here.
class RemoteSink : public EventSink {
 public:
  RemoteSink(RankMesh& mesh, const std::vector<Event>& wanted,
             const std::vector<Event>& wanted_parts = {})
      : mesh_(mesh),
        wanted_(wanted.begin(), wanted.end()),
        wanted_parts_(wanted_parts.begin(), wanted_parts.end()) {}

  [[nodiscard]] bool wants_any() const { return !wanted_.empty() || !wanted_parts_.empty(); }

  [[nodiscard]] bool wants(const Event& event) const override { return wanted_.contains(event); }
  void rows(const Event& event, const EventView& values, const RowCoordinates& at) override;
  void whole(const Event& event, const EventView& values) override;
  [[nodiscard]] bool wants_part(const Event& event, int /*rank*/) const override {
    return wanted_parts_.contains(event);
  }
  void part(const Event& event, int rank, const EventView& values, int64_t row,
            int64_t column) override;
  void restart() override;

 private:
  RankMesh& mesh_;
  const std::set<Event> wanted_, wanted_parts_;
};

/// The events of a model that `wants` is true of.
[[nodiscard]] std::vector<Event> wanted_events(const ModelConfig& config,
                                               const std::function<bool(const Event&)>& wants);

/// Shows a sink what `rank` sent. Returns, of a part, the elements as the sink left them, which
/// that rank waits for.
[[nodiscard]] std::optional<std::vector<std::byte>> show_note(int rank,
                                                              std::span<const std::byte> note,
                                                              EventSink& sink);

}  // namespace rlreplay::engine

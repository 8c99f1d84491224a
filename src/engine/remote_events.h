#pragma once

#include <set>
#include <span>
#include <vector>

#include "src/base/model_config.h"
#include "src/engine/packed.h"
#include "src/engine/rank_mesh.h"
#include "src/events/events.h"

namespace rlreplay::engine {

/// Sends what a rank shows to rank 0.
class RemoteSink : public EventSink {
 public:
  RemoteSink(RankMesh& mesh, const std::vector<Event>& wanted)
      : mesh_(mesh), wanted_(wanted.begin(), wanted.end()) {}

  bool wants(const Event& event) const override { return wanted_.contains(event); }
  void rows(const Event& event, const EventView& values, const RowCoordinates& at) override;
  void whole(const Event& event, const EventView& values) override;
  void restart() override;

 private:
  RankMesh& mesh_;
  const std::set<Event> wanted_;
};

/// Those of a model's events that a sink wants.
std::vector<Event> wanted_events(const EventSink& sink, const ModelConfig& config);

/// Shows what a rank sent.
void show_note(std::span<const std::byte> note, EventSink& sink);

}  // namespace rlreplay::engine

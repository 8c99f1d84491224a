#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/engine/packed.h"
#include "src/engine/rank_call.h"

namespace rlreplay::engine {

/// What a rank says of itself with every beat.
struct RankState {
  uint64_t waits = 0;  // begun so far
  uint64_t sent = 0, received = 0;
  int waits_for = -1;  // -1: it computes
  RankCall call;
  uint8_t interrupted = 0;  // 1: a signal has come that ends its process
};

/// The state that one of so many ranks sent. Errors: kInternal for bytes that are none that a rank
/// can be in: its fields index tables.
[[nodiscard]] RankState take_state(Unpacker& from, int ranks, const std::string& sender);

/// "rank 0 (tp 0) waits in tp gather for rank 1 (tp 1)".
[[nodiscard]] std::string waiting_text(const Layout& layout, int rank, const RankState& state);

/// What each rank was last heard to do.
class RankWatch {
 public:
  RankWatch(int ranks, int self) : self_(self), heard_(static_cast<size_t>(ranks)) {}

  void hear(int rank, const RankState& state);
  /// Time goes by.
  void beat();
  /// No more comes from it.
  void end(int rank) { at(rank).ended = true; }
  [[nodiscard]] bool has_ended(int rank) const { return heard_[static_cast<size_t>(rank)].ended; }

  [[nodiscard]] bool is_interrupted(int rank) const {
    return heard_[static_cast<size_t>(rank)].state.interrupted != 0;
  }

  /// What the first few others wait for, each behind "; ".
  std::string others(const Layout& layout, int blamed) const;

  /// Where all wait, and have for a while, and nothing is on its way: what the first waits for.
  [[nodiscard]] std::optional<std::string> stuck(const Layout& layout) const;

 private:
  struct Heard {
    RankState state;
    int times = 0;   // that it has said the same while it waits
    int silent = 0;  // own beats since it said anything
    bool ended = false;
  };
  Heard& at(int rank) { return heard_[static_cast<size_t>(rank)]; }

  const int self_;
  std::vector<Heard> heard_;  // by rank
};

}  // namespace rlreplay::engine

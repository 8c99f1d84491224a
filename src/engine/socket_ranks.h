#pragma once

#include <memory>
#include <vector>

#include "src/engine/group.h"
#include "src/engine/rank_mesh.h"

namespace rlreplay::engine {

/// The groups of one rank whose others are processes.
class SocketRanks {
 public:
  /// `mesh` has as many ranks as the layout, and outlives this.
  SocketRanks(RankMesh& mesh, const Layout& layout);
  ~SocketRanks();

  const Ranks& ranks() const { return *ranks_; }

 private:
  std::vector<std::unique_ptr<Group>> groups_;
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace rlreplay::engine

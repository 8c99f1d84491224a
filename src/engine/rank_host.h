#pragma once

#include <memory>

#include "src/base/layout.h"

namespace rlreplay::engine {

class RankMesh;

/// Who has the processes that are ranks of a layout. This process is rank 0.
class RankHost {
 public:
  virtual ~RankHost() = default;
  /// Errors: kUsage where the ranks that are there are not as many as the layout has.
  virtual void check_layout(const Layout& layout) const = 0;
  /// Threads of each rank where a machine has `threads`.
  virtual int threads_of_rank(const Layout& layout, int threads) const = 0;
  /// The ranks' connections; each other rank serves (serve_rank.h) until the last owner lets go.
  /// Errors: as check_layout; those of meet.
  virtual std::shared_ptr<RankMesh> start(const Layout& layout) = 0;
};

}  // namespace rlreplay::engine

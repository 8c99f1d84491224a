#pragma once

#include <chrono>
#include <memory>

#include "src/engine/rank_host.h"
#include "src/replay/options/options.h"
#include "src/replay/run/launched_rank.h"

namespace rlreplay::replay {

/// Ranks that this process starts on its own machine for every layout that is asked for. What they
/// print goes to standard error, each line with its rank in front. They end with this process,
/// however it ends.
class LocalRanks : public engine::RankHost {
 public:
  explicit LocalRanks(std::chrono::milliseconds silence) : silence_(silence) {}

  void check_layout(const Layout&) const override {}
  int threads_of_rank(const Layout& layout, int threads) const override;
  /// Starts the ranks of the layout.
  /// Errors: kEnvironment where a rank cannot be started, or ends before it takes part.
  std::shared_ptr<engine::RankMesh> start(const Layout& layout) override;

 private:
  const std::chrono::milliseconds silence_;
};

/// Ranks that somebody else has started, once for all layouts.
class LaunchedRanks : public engine::RankHost {
 public:
  LaunchedRanks(LaunchedRank self, std::chrono::milliseconds silence)
      : self_(std::move(self)), silence_(silence) {}
  ~LaunchedRanks() override;

  void check_layout(const Layout& layout) const override;
  int threads_of_rank(const Layout& layout, int threads) const override;
  std::shared_ptr<engine::RankMesh> start(const Layout& layout) override;

 private:
  const LaunchedRank self_;
  const std::chrono::milliseconds silence_;
  std::shared_ptr<engine::RankMesh> mesh_;  // a team has it, too
};

/// Who has the ranks of this run's layouts where they are processes: a launcher, or this process;
/// null where they are threads.
[[nodiscard]] std::unique_ptr<engine::RankHost> rank_host(const RunOptions& options);

/// The same of what one process does, whichever launcher's variables it inherits: this process, or
/// null. Errors: those of check_first_process.
[[nodiscard]] std::unique_ptr<engine::RankHost> own_rank_host(const RunOptions& options);

}  // namespace rlreplay::replay

#pragma once

#include <memory>

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "src/engine/runtime.h"
#include "src/replay/launch/provenance.h"
#include "src/replay/options/options.h"
#include "src/replay/run/rank_hosts.h"

namespace rlreplay::replay {

/// The processors and kernels that a run uses.
class Machine {
 public:
  /// Proves the arithmetic before anything is computed.
  /// Errors: kEnvironment where the processor does not give the contract's bits.
  explicit Machine(const RunOptions& options);
  /// With its ranks, if they are processes, of another host than rank_host().
  Machine(const RunOptions& options, std::unique_ptr<engine::RankHost> host);

  const engine::Runtime& runtime() const { return runtime_; }
  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
  const std::unique_ptr<engine::RankHost> host_;
  engine::Runtime runtime_;
};

/// What this process computes with, once a run of these options has loaded its kernels.
[[nodiscard]] Computing computing(const RunOptions& options);

}  // namespace rlreplay::replay

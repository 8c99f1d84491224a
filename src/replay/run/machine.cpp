#include "src/replay/run/machine.h"

#include <algorithm>
#include <iostream>
#include <limits>
#include <utility>

#include "kernels/probe.h"
#include "src/base/thread_pool.h"
#include "src/engine/backend_torch_library.h"

namespace rlreplay::replay {
namespace {

int thread_count(const RunOptions& options) {
  const int64_t out = options.threads > 0 ? options.threads : processors();
  return static_cast<int>(std::min<int64_t>(out, std::numeric_limits<int>::max()));
}

}  // namespace

Machine::Machine(const RunOptions& options) : Machine(options, rank_host(options)) {}

Machine::Machine(const RunOptions& options, std::unique_ptr<engine::RankHost> host)
    : pool_(thread_count(options)),
      host_(std::move(host)),
      runtime_{kernels::cpu_kernels(), pool_, nullptr, nullptr, host_.get()} {
  if (pool_.threads() > processors()) {
    std::cerr << "rlreplay: more threads (" << pool_.threads() << ") than processors ("
              << processors() << ") slow a run down\n";
  }
  kernels::prove_arithmetic(pool_);
}

Computing computing(const RunOptions& options) {
  return {std::string(kernels::cpu_kernels().name),
          options.kernels == "torch" ? engine::torch_version() : std::string()};
}

}  // namespace rlreplay::replay

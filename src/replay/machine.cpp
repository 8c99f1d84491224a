#include "src/replay/machine.h"

#include <algorithm>
#include <thread>

#include "kernels/probe.h"

namespace rlreplay::replay {
namespace {

int thread_count(const RunOptions& options) {
  if (options.threads > 0) return static_cast<int>(std::min<int64_t>(options.threads, 1024));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

Machine::Machine(const RunOptions& options)
    : pool_(thread_count(options)), runtime_{kernels::cpu_kernels(), pool_} {
  kernels::prove_arithmetic(pool_);
}

}  // namespace rlreplay::replay

#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"

namespace rlreplay::kernels::test {

/// Pools of 1, 2 and 4 threads, made once.
inline const std::vector<std::unique_ptr<ThreadPool>>& pools() {
  static const auto made = [] {
    std::vector<std::unique_ptr<ThreadPool>> out;
    for (const int threads : {1, 2, 4}) out.push_back(std::make_unique<ThreadPool>(threads));
    return out;
  }();
  return made;
}

/// Requires that run(set, pool) -> std::string, the bytes of all outputs, is the same for the
/// reference and every SIMD set of this processor with every number of threads. Returns the bytes.
template <class Run>
std::string require_equal_sets(Run run) {
  const std::string want = run(reference_kernels(), *pools().front());
  REQUIRE_FALSE(cpu_kernel_sets().empty());
  for (const auto& set : cpu_kernel_sets()) {
    for (const auto& pool : pools()) {
      const bool equal = run(set, *pool) == want;
      CAPTURE(set.name, pool->threads());
      REQUIRE(equal);
    }
  }
  return want;
}

}  // namespace rlreplay::kernels::test

#pragma once

#include "src/base/thread_pool.h"

/// What the machine can do at most, measured with all threads of a pool.
namespace rlreplay::bench {

struct Peaks {
  double fma_gflops = 0;   // independent fused multiply-adds on registers, widest SIMD target
  double read_gbytes = 0;  // reading memory far larger than the caches
  double cpu_share = 0;    // of the time of as many processors as threads; 1 where nothing else ran
};

/// The best of several runs; takes about half a second.
[[nodiscard]] Peaks measure_peaks(ThreadPool& pool);

}  // namespace rlreplay::bench

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/buffer.h"
#include "src/base/thread_pool.h"

/// Benchmarks of our kernels against stock libtorch operators, both in the same run.
namespace rlreplay::bench {

struct Context {
  const kernels::KernelSet& kernels;
  ThreadPool& pool;
};

/// The two sides of a comparison: each call does the item's work once, on data of its own that was
/// allocated before. An empty function: there is nothing to run on this side.
struct Sides {
  std::function<void()> ours;
  std::function<void()> torch;
};

enum class Unit { kGflops, kGbytes };

/// One comparison, by its name, such as `gemm M=512 K=896 N=4864 forward`.
struct Item {
  std::string name;
  Unit unit = Unit::kGflops;
  double work = 0;  // floating-point operations (a fused multiply-add counts 2) or bytes of a call
  /// Allocates; called only for the items that are measured. `context` outlives the sides.
  std::function<Sides(const Context& context)> make;
};

// One function a family, each in its own file.
void add_attention(std::vector<Item>& items);
void add_gemm(std::vector<Item>& items);
void add_rows(std::vector<Item>& items);

/// Numbers between -1 and 1, the same on every machine.
[[nodiscard]] Buffer<float> numbers(int64_t count, uint64_t seed);

}  // namespace rlreplay::bench

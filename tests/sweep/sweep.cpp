#include "tests/sweep/sweep.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <span>

#include "kernels/mix.h"
#include "kernels/sweep_input.h"
#include "src/base/thread_pool.h"
#include "tests/sweep/truth.h"

namespace rlreplay::sweep {
namespace {

using kernels::Function;
using kernels::FunctionSet;

constexpr uint64_t kBlock = uint64_t{1} << 16;  // inputs of a work item

/// The spacing of floats in the binade of t.
double ulp(double t) {
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(t) >> 52 & 0x7ff) - 1023;
  const int e = std::max(exponent, -126) - 23;
  return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
}

struct Errors {
  double max = 0;
  uint32_t worst = 0;
  uint64_t not_nearest = 0;
  uint64_t wrong_special = 0;

  void add(uint32_t x, float got, double want) {
    const float nearest = static_cast<float>(want);
    if (got == nearest || (std::isnan(got) && std::isnan(nearest))) {
      if (std::isfinite(got)) raise(x, std::fabs(got - want) / ulp(want));
      return;
    }
    ++not_nearest;
    if (!std::isfinite(got) || !std::isfinite(nearest)) {
      ++wrong_special;
      raise(x, std::numeric_limits<double>::infinity());
    } else {
      raise(x, std::fabs(got - want) / ulp(want));
    }
  }
  void raise(uint32_t x, double error) {
    if (error > max || (error == max && error > 0 && x < worst)) max = error, worst = x;
  }
  void merge(const Errors& other) {
    raise(other.worst, other.max);
    not_nearest += other.not_nearest;
    wrong_special += other.wrong_special;
  }
};

}  // namespace

bool Result::equal() const {
  return std::all_of(digests.begin(), digests.end(),
                     [&](const SetDigest& d) { return d.digest == digests[0].digest; });
}

Result run(Function function, const Options& options) {
  std::vector<FunctionSet> sets = {kernels::scalar_functions()};
  for (const auto& set : kernels::simd_functions()) sets.push_back(set);
  const uint64_t total = kernels::sweep_size(options.samples);
  const uint64_t blocks = (total + kBlock - 1) / kBlock;

  std::vector<uint64_t> digests(sets.size());
  Errors errors;
  std::mutex mutex;
  uint64_t done = 0;
  ThreadPool pool(options.threads);
  pool.run(static_cast<int64_t>(blocks), [&](int64_t item, int worker) {
    const uint64_t begin = static_cast<uint64_t>(item) * kBlock;
    const size_t n = std::min(kBlock, total - begin);
    float* x = reinterpret_cast<float*>(pool.scratch(worker, 2 * kBlock * sizeof(float)));
    float* y = x + kBlock;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t bits = kernels::sweep_input(begin + i, options.samples, options.seed);
      x[i] = std::bit_cast<float>(bits);
    }
    Errors mine;
    std::vector<uint64_t> sums(sets.size());
    for (size_t s = 0; s < sets.size(); ++s) {
      sets[s].apply(function, {x, n}, y);
      for (size_t i = 0; i < n; ++i) {
        sums[s] += kernels::mix_pair(std::bit_cast<uint32_t>(x[i]), y[i]);
      }
      if (s == 0 && options.measure) {
        for (size_t i = 0; i < n; ++i) {
          mine.add(std::bit_cast<uint32_t>(x[i]), y[i], truth(function, x[i]));
        }
      }
    }
    const std::lock_guard lock(mutex);
    for (size_t s = 0; s < sets.size(); ++s) digests[s] += sums[s];
    errors.merge(mine);
    ++done;
    if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(blocks));
  });

  Result result;
  result.function = function;
  result.inputs = total;
  for (size_t s = 0; s < sets.size(); ++s) result.digests.push_back({sets[s].name, digests[s]});
  result.max_error = errors.max;
  result.worst = std::bit_cast<float>(errors.worst);
  sets[0].apply(function, {&result.worst, 1}, &result.got);
  result.want = static_cast<float>(truth(function, result.worst));
  result.not_nearest = errors.not_nearest;
  result.wrong_special = errors.wrong_special;
  return result;
}

}  // namespace rlreplay::sweep

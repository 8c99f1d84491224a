#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peaks.cpp"
#include "bench/peaks.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <functional>
#include <vector>

#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rlreplay::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Returns the floating-point operations done. Twelve chains cover the latency of two fma units.
double fma_loop(int64_t rounds, float* out) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  auto c0 = hn::Set(d, 0.0f), c1 = hn::Set(d, 0.1f), c2 = hn::Set(d, 0.2f);
  auto c3 = hn::Set(d, 0.3f), c4 = hn::Set(d, 0.4f), c5 = hn::Set(d, 0.5f);
  auto c6 = hn::Set(d, 0.6f), c7 = hn::Set(d, 0.7f), c8 = hn::Set(d, 0.8f);
  auto c9 = hn::Set(d, 0.9f), c10 = hn::Set(d, 1.0f), c11 = hn::Set(d, 1.1f);
  for (int64_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b), c1 = hn::MulAdd(c1, a, b), c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b), c4 = hn::MulAdd(c4, a, b), c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b), c7 = hn::MulAdd(c7, a, b), c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b), c10 = hn::MulAdd(c10, a, b), c11 = hn::MulAdd(c11, a, b);
  }
  const auto x = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(c4, c5));
  const auto y = hn::Add(hn::Add(hn::Add(c6, c7), hn::Add(c8, c9)), hn::Add(c10, c11));
  *out = hn::GetLane(hn::Add(x, y));
  return 12.0 * 2.0 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

float read_all(const float* data, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t n = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i + 4 * n <= count; i += 4 * n) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + i + n));
    s2 = hn::Add(s2, hn::LoadU(d, data + i + 2 * n));
    s3 = hn::Add(s3, hn::LoadU(d, data + i + 3 * n));
  }
  return hn::GetLane(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

}  // namespace rlreplay::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlreplay::bench {
namespace {

HWY_EXPORT(fma_loop);
HWY_EXPORT(read_all);

double seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_seconds(const std::function<void()>& run) {
  double best = seconds(run);
  for (int i = 0; i < 6; ++i) best = std::min(best, seconds(run));
  return best;
}

struct alignas(64) Result {
  float value = 0;
  double operations = 0;
};

}  // namespace

Peaks measure_peaks(ThreadPool& pool) {
  constexpr int64_t kRounds = 2'000'000;
  constexpr int64_t kFloats = int64_t{48} << 20;  // of each thread, 192 MiB
  const int64_t threads = pool.threads();
  std::vector<Result> results(static_cast<size_t>(threads));
  const auto fma = [&] {
    pool.run(threads, [&](int64_t i, int) {
      auto& result = results[static_cast<size_t>(i)];
      result.operations = HWY_DYNAMIC_DISPATCH(fma_loop)(kRounds, &result.value);
    });
  };
  std::vector<float> data(static_cast<size_t>(kFloats * threads), 1.0f);
  const auto read = [&] {
    pool.run(threads, [&](int64_t i, int) {
      results[static_cast<size_t>(i)].value =
          HWY_DYNAMIC_DISPATCH(read_all)(data.data() + i * kFloats, kFloats);
    });
  };
  const std::clock_t clock = std::clock();
  double fma_time = 0;
  const double elapsed = seconds([&] { fma_time = best_seconds(fma); });
  const double cpu = static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC;
  const double read_time = best_seconds(read);
  double operations = 0;
  for (const auto& result : results) operations += result.operations;
  return {operations / fma_time * 1e-9, static_cast<double>(data.size()) * 4 / read_time * 1e-9,
          cpu / (elapsed * static_cast<double>(threads))};
}

}  // namespace rlreplay::bench
#endif

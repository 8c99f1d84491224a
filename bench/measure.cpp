#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace rlreplay::bench {
namespace {

double seconds_of(const std::function<void()>& side, int64_t calls) {
  side();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) side();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(calls);
}

int64_t calls_in(const std::function<void()>& side, double seconds) {
  side();
  return std::clamp<int64_t>(std::llround(seconds / seconds_of(side, 1)), 1, 100'000);
}

std::optional<Rate> rate(const Item& item, const std::vector<double>& times) {
  if (times.empty()) return {};
  const double work = item.work * 1e-9;
  return Rate{work / median(times), work / *std::min_element(times.begin(), times.end())};
}

}  // namespace

Outcome measure(const Item& item, const Sides& sides, int repetitions, double seconds) {
  const int64_t our_calls = sides.ours ? calls_in(sides.ours, seconds) : 0;
  const int64_t torch_calls = sides.torch ? calls_in(sides.torch, seconds) : 0;
  std::vector<double> ours, torch, ratios;
  for (int i = 0; i < repetitions; ++i) {
    if (our_calls) ours.push_back(seconds_of(sides.ours, our_calls));
    if (torch_calls) torch.push_back(seconds_of(sides.torch, torch_calls));
    if (our_calls && torch_calls) ratios.push_back(torch.back() / ours.back());
  }
  Outcome out{rate(item, ours), rate(item, torch), {}};
  if (!ratios.empty()) out.ratio = median(ratios);
  return out;
}

}  // namespace rlreplay::bench

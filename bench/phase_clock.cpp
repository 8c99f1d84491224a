#include "bench/phase_clock.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

namespace rlreplay::bench {

void PhaseClock::begin() {
  seconds_.clear();
  last_ = std::chrono::steady_clock::now();
}

void PhaseClock::add(const std::string& name) const {
  const auto now = std::chrono::steady_clock::now();
  seconds_[name] += std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

void PhaseClock::end_of_work() { add("rest"); }

bool PhaseClock::wants(const engine::Event& event) const {
  add(std::string(name(event.phase)) + " " + std::string(name(event.op)));
  return false;
}

void PhaseClock::print(const std::string& title, int repetitions) const {
  std::vector<std::pair<double, std::string>> lines;
  double total = 0;
  for (const auto& [name, seconds] : seconds_) {
    lines.emplace_back(seconds, name);
    total += seconds;
  }
  std::sort(lines.rbegin(), lines.rend());
  std::fprintf(stderr, "%s: %.4f s\n", title.c_str(), total / repetitions);
  for (const auto& [seconds, name] : lines) {
    std::fprintf(stderr, "  %-24s %9.4f s %5.1f %%\n", name.c_str(), seconds / repetitions,
                 100 * seconds / total);
  }
}

}  // namespace rlreplay::bench

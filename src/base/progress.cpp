#include "src/base/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <unistd.h>

namespace rlreplay {
namespace {

constexpr int64_t kWidth = 30;
constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(std::string what, std::string unit, int64_t total)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(std::max<int64_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_ - kInterval) {}

Progress::~Progress() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

// At most ten times a second, and once at the end.
void Progress::at(int64_t done) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kInterval && done < total_) return;
  drawn_ = now;
  draw(done);
}

void Progress::draw(int64_t done) {
  const int64_t filled = std::clamp<int64_t>(done * kWidth / total_, 0, kWidth);
  const std::string bar(static_cast<size_t>(filled), '#');
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  std::string left;
  if (done > 0 && done < total_ && seconds > 2) {
    const double rest = seconds / static_cast<double>(done) * static_cast<double>(total_ - done);
    left = ", " + std::to_string(static_cast<int64_t>(rest)) + " s left";
  }
  std::fprintf(stderr, "\r\033[K%s [%-*s] %lld of %lld %s%s", what_.c_str(),
               static_cast<int>(kWidth), bar.c_str(), static_cast<long long>(done),
               static_cast<long long>(total_), unit_.c_str(), left.c_str());
  std::fflush(stderr);
}

}  // namespace rlreplay

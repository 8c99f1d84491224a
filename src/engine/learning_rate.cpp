#include "src/engine/learning_rate.h"

#include <cmath>
#include <string>

#include "kernels/binary64.h"
#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

// pi / 2 as the sum of two.
constexpr double kHalfPi = 0x1.921fb54442d18p+0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorCode::kUsage, message);
}

bool is_rate(double x) { return std::isfinite(x) && x >= 0; }

/// sin(pi / 2 a / b)^2. The angle is taken in two parts: rounded to one, it would cost most of the
/// digits that the square may lose.
double squared_sine(double a, double b) {
  const double share = a / b;
  const double angle = kHalfPi * share;
  const double rest = std::fma(-share, b, a) / b;
  const double low = std::fma(kHalfPi, share, -angle) + std::fma(kHalfPi, rest, kHalfPiLow * share);
  const double sine = std::fma(low, kernels::binary64::cos(angle), kernels::binary64::sin(angle));
  return sine * sine;
}

}  // namespace

void check_learning_rate(const LearningRate& s) {
  require(is_rate(s.lr) && is_rate(s.min_lr) && is_rate(s.warmup_init),
          "--lr, --min-lr and --lr-warmup-init must be finite and not negative");
  require(s.min_lr <= s.lr, "--min-lr is above --lr: the rate decays from --lr to --min-lr");
  require(s.warmup_init <= s.lr,
          "--lr-warmup-init is above --lr: the rate rises from --lr-warmup-init to --lr");
  require(s.warmup_iters >= 0, "--lr-warmup-iters must not be negative");
  if (s.decay_style == DecayStyle::kConstant) return;
  require(s.decay_iters > s.warmup_iters,
          "--lr-decay-iters is " + std::to_string(s.decay_iters) +
              ": it counts the warm-up too and must be above --lr-warmup-iters (" +
              std::to_string(s.warmup_iters) + ")");
}

double learning_rate(const LearningRate& s, int64_t steps_taken) {
  if (s.warmup_iters > 0 && steps_taken < s.warmup_iters) {
    const double rise = (s.lr - s.warmup_init) * static_cast<double>(steps_taken);
    return s.warmup_init + rise / static_cast<double>(s.warmup_iters);
  }
  if (s.decay_style == DecayStyle::kConstant || steps_taken <= s.warmup_iters) return s.lr;
  if (steps_taken >= s.decay_iters) return s.min_lr;
  const auto left = static_cast<double>(s.decay_iters - steps_taken);
  const auto decay = static_cast<double>(s.decay_iters - s.warmup_iters);
  const double share =
      s.decay_style == DecayStyle::kCosine ? squared_sine(left, decay) : left / decay;
  return s.min_lr + share * (s.lr - s.min_lr);
}

}  // namespace rlreplay::engine

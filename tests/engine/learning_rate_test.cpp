#include "src/engine/learning_rate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "src/base/error.h"

using namespace rlreplay;
using namespace rlreplay::engine;

namespace {

/// The schedule in extended precision with libm's cosine, written from its description.
long double exact_rate(const LearningRate& s, int64_t step) {
  const long double t = static_cast<long double>(step);
  const long double lr = s.lr, low = s.min_lr, init = s.warmup_init;
  const long double warmup = static_cast<long double>(s.warmup_iters);
  const long double decay = static_cast<long double>(s.decay_iters);
  if (s.warmup_iters > 0 && step <= s.warmup_iters) return init + (lr - init) * t / warmup;
  if (s.decay_style == DecayStyle::kConstant) return lr;
  if (step > s.decay_iters) return low;
  const long double x = (t - warmup) / (decay - warmup);
  const long double share = s.decay_style == DecayStyle::kLinear
                                ? 1 - x
                                : (std::cos(3.14159265358979323846264338327950288L * x) + 1) / 2;
  return low + share * (lr - low);
}

/// Distance in units of the last place of `want` rounded to binary64.
double ulps(double got, long double want) {
  const double near = static_cast<double>(want);
  const double above = std::nextafter(std::fabs(near), std::numeric_limits<double>::infinity());
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) /
                             (static_cast<long double>(above) - std::fabs(near)));
}

LearningRate schedule(DecayStyle style) {
  LearningRate s;
  s.lr = 3e-4;
  s.min_lr = 1e-5;
  s.decay_style = style;
  s.warmup_init = 1e-7;
  s.warmup_iters = 7;
  s.decay_iters = 107;
  return s;
}

constexpr DecayStyle kStyles[] = {DecayStyle::kConstant, DecayStyle::kLinear, DecayStyle::kCosine};

}  // namespace

TEST_CASE("rates are within 4 ulp of their formula at every step") {
  for (const DecayStyle style : kStyles) {
    for (const int64_t warmup : {0, 1, 7, 500}) {
      for (const int64_t decay : {501, 1000, 99999}) {
        LearningRate s = schedule(style);
        s.warmup_iters = warmup;
        s.decay_iters = decay;
        const int64_t stride = decay / 1000 + 1;
        double worst = 0;
        for (int64_t step = 0; step < decay + 50; step += stride) {
          worst = std::max(worst, ulps(learning_rate(s, step), exact_rate(s, step)));
        }
        CAPTURE(static_cast<int>(style), warmup, decay);
        REQUIRE(worst <= 4);
      }
    }
  }
}

TEST_CASE("a cosine that decays to nothing keeps its digits to the last step") {
  LearningRate s = schedule(DecayStyle::kCosine);
  s.min_lr = 0;
  s.warmup_iters = 0;
  s.decay_iters = 1000000;
  // sin(pi / 2 d / D)^2 d steps before the end, for small angles to the fourth power.
  for (const int64_t left : {1, 2, 10, 300}) {
    const long double angle =
        3.14159265358979323846264338327950288L / 2 * static_cast<long double>(left) / 1000000;
    const long double sine = angle * (1 - angle * angle / 6 * (1 - angle * angle / 20));
    REQUIRE(ulps(learning_rate(s, 1000000 - left), s.lr * sine * sine) <= 4);
  }
}

TEST_CASE("borders: first step, end of the warm-up, end of the decay and beyond") {
  for (const DecayStyle style : kStyles) {
    const LearningRate s = schedule(style);
    REQUIRE(learning_rate(s, 0) == s.warmup_init);
    REQUIRE(learning_rate(s, 6) < s.lr);
    REQUIRE(learning_rate(s, 7) == s.lr);
    const double end = style == DecayStyle::kConstant ? s.lr : s.min_lr;
    for (const int64_t step : {int64_t{107}, int64_t{108}, int64_t{1} << 60}) {
      REQUIRE(learning_rate(s, step) == end);
    }
    if (style != DecayStyle::kConstant) {
      REQUIRE(learning_rate(s, 8) < s.lr);
      REQUIRE(learning_rate(s, 106) > s.min_lr);
    }
    LearningRate plain = s;
    plain.warmup_iters = 0;
    REQUIRE(learning_rate(plain, 0) == s.lr);
  }
  LearningRate cosine = schedule(DecayStyle::kCosine);
  REQUIRE(ulps(learning_rate(cosine, 57), (cosine.lr + cosine.min_lr) / 2) <= 4);
}

TEST_CASE("the bits of the rates are these on every machine") {
  // Computed once; a change here changes the weights of every run with a schedule.
  const LearningRate s = schedule(DecayStyle::kCosine);
  REQUIRE(learning_rate(s, 3) == 0x1.0dc0f03e65d3bp-13);
  REQUIRE(learning_rate(s, 8) == 0x1.3a7f6e3a74f5fp-12);
  REQUIRE(learning_rate(s, 40) == 0x1.dfd9f91becd0bp-13);
  REQUIRE(learning_rate(s, 106) == 0x1.51f1f1e9fc93cp-17);
}

TEST_CASE("what makes no schedule is refused by name") {
  const auto refused = [](auto change, const std::string& option) {
    LearningRate s = schedule(DecayStyle::kLinear);
    change(s);
    try {
      check_learning_rate(s);
    } catch (const Error& error) {
      return error.code() == ErrorCode::kUsage &&
             std::string(error.what()).find(option) != std::string::npos;
    }
    return false;
  };
  for (const DecayStyle style : kStyles) REQUIRE_NOTHROW(check_learning_rate(schedule(style)));
  REQUIRE(refused([](auto& s) { s.lr = -1; }, "--lr,"));
  REQUIRE(refused([](auto& s) { s.lr = std::nan(""); }, "--lr,"));
  REQUIRE(refused([](auto& s) { s.min_lr = 1; }, "--min-lr"));
  REQUIRE(refused([](auto& s) { s.warmup_init = 1; }, "--lr-warmup-init"));
  REQUIRE(refused([](auto& s) { s.warmup_iters = -1; }, "--lr-warmup-iters"));
  REQUIRE(refused([](auto& s) { s.decay_iters = 7; }, "--lr-decay-iters"));
  REQUIRE(refused([](auto& s) { s.decay_iters = 0; }, "--lr-decay-iters"));
  LearningRate constant = schedule(DecayStyle::kConstant);
  constant.decay_iters = 0;
  REQUIRE_NOTHROW(check_learning_rate(constant));
}

#include "src/base/error.h"
#include "src/engine/torch/operators.h"
#include "tests/kernels/oracle.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

/// |got - want| in units of the last place of binary32 at `want`.
double ulps(float got, long double want) {
  const auto near = static_cast<float>(want);
  const float size = std::fabs(near);
  const long double unit = std::nextafter(size, INFINITY) - size;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / unit);
}

struct State {
  std::vector<int64_t> sum;
  std::vector<float> m, v, w;
};

constexpr int kScale = 46;

/// Typical elements, first steps, and elements where m, or w, nearly cancel.
State make_state(Random& random, int64_t n, const AdamWOptions& options, bool first) {
  State out;
  for (int64_t i = 0; i < n; ++i) {
    const double g = random.normal() * 1e-3;
    double m = first ? 0 : random.normal() * 1e-3, w = random.normal() * 0.02;
    const double v = first ? 0 : random.uniform() * 1e-6;
    if (i % 4 == 1 && !first)
      m = -g * (1 - options.beta1) / options.beta1 * (1 + 1e-5 * random.normal());
    if (i % 4 == 2) w = options.rate * random.normal();
    out.sum.push_back(static_cast<int64_t>(g * 0x1p46));
    out.m.push_back(static_cast<float>(m));
    out.v.push_back(static_cast<float>(v));
    out.w.push_back(static_cast<float>(w));
  }
  return out;
}

State updated(const State& state, float clip, const AdamWStep& step) {
  State out = state;
  cpu_kernels().adamw({.sum = out.sum,
                       .scale = kScale,
                       .clip = clip,
                       .step = step,
                       .m = out.m,
                       .v = out.v,
                       .w = out.w},
                      *pools()[1]);
  return out;
}

}  // namespace

TEST_CASE("adamw: m, v and w within 4 ulp of the formula, where they cancel too") {
  Random random(101);
  double worst = 0, worst_plain = 0;
  for (const int64_t t : {1, 2, 10, 5000}) {
    for (const float clip : {1.0f, 0.037f}) {
      const AdamWOptions o = {.rate = 1e-3, .beta2 = t == 2 ? 0.95 : 0.999, .weight_decay = 0.1};
      const State before = make_state(random, 4000, o, t == 1);
      const State after = updated(before, clip, adamw_step(o, t));
      using L = long double;
      const L b1 = static_cast<L>(o.beta1), b2 = static_cast<L>(o.beta2);
      const L rate = static_cast<L>(o.rate), eps = static_cast<L>(o.eps);
      for (size_t i = 0; i < before.sum.size(); ++i) {
        const L g = std::ldexp(static_cast<L>(before.sum[i]), -kScale) * static_cast<L>(clip);
        const L m = b1 * static_cast<L>(before.m[i]) + (1 - b1) * g;
        const L v = b2 * static_cast<L>(before.v[i]) + (1 - b2) * g * g;
        const L power1 = std::pow(b1, static_cast<L>(t)), power2 = std::pow(b2, static_cast<L>(t));
        const L w0 = static_cast<L>(before.w[i]);
        const L w = w0 * (1 - rate * static_cast<L>(o.weight_decay)) -
                    rate * (m / (1 - power1)) / (std::sqrt(v / (1 - power2)) + eps);
        worst = std::max({worst, ulps(after.m[i], m), ulps(after.v[i], v), ulps(after.w[i], w)});
        const auto gf = static_cast<float>(g), b1f = static_cast<float>(b1);
        const float plain = fmaf(b1f, before.m[i], static_cast<float>(1 - b1) * gf);
        worst_plain = std::max(worst_plain, ulps(plain, m));
      }
    }
  }
  CAPTURE(worst, worst_plain);
  CHECK(worst <= 0.51);    // one rounding each
  CHECK(worst_plain > 4);  // what the same form in binary32 would do
}

TEST_CASE("adamw: libtorch's fused form in float64 is the same update") {
  Random random(102);
  const AdamWOptions o = {.rate = 2e-3, .beta2 = 0.98, .eps = 1e-6, .weight_decay = 0.01};
  const State before = make_state(random, 3000, o, false);
  const State after = updated(before, 1, adamw_step(o, 7));
  const auto n = static_cast<int64_t>(before.sum.size());
  std::vector<double> grad;
  for (const int64_t sum : before.sum)
    grad.push_back(std::ldexp(static_cast<double>(sum), -kScale));
  const auto want = aten::adamw(array({n}, grad), array({n}, before.m), array({n}, before.v),
                                array({n}, before.w), o.rate, o.beta1, o.beta2, o.eps,
                                o.weight_decay, 7, aten::Precision::kFloat64);
  double worst = 0;
  for (size_t i = 0; i < before.sum.size(); ++i) {
    const auto at = [&](const aten::Array& a) { return static_cast<long double>(a.values[i]); };
    worst = std::max({worst, ulps(after.m[i], at(want.m)), ulps(after.v[i], at(want.v)),
                      ulps(after.w[i], at(want.w))});
  }
  CHECK(worst <= 0.51);
}

TEST_CASE("adamw_step: powers are repeated products, and betas must make sense") {
  const AdamWOptions o = {.rate = 0.1, .beta1 = 0.9, .beta2 = 0.999};
  const AdamWStep step = adamw_step(o, 3);
  REQUIRE(step.one_minus_beta1 == 1 - 0.9);
  REQUIRE(step.step_size == 0.1 / (1 - (0.9 * 0.9) * 0.9));
  REQUIRE(step.inverse_root == 1 / std::sqrt(1 - (0.999 * 0.999) * 0.999));
  REQUIRE_THROWS_AS(adamw_step(o, 0), Error);
  REQUIRE_THROWS_AS(adamw_step({.beta1 = 1.0}, 1), Error);
}

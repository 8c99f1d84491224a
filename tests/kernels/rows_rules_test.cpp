#include "tests/kernels/rows_rules.h"

#include "tests/kernels/rows_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

std::vector<const KernelSet*> all_sets() {
  std::vector<const KernelSet*> out = {&reference_kernels()};
  for (const auto& set : cpu_kernel_sets()) out.push_back(&set);
  return out;
}

std::vector<float> normal_vector(Random& random, int64_t n, float scale = 1) {
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = random.normal() * scale;
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return bytes_of(a) == bytes_of(b);
}

/// r of one row.
float run_root(const KernelSet& set, const std::vector<float>& x, float eps) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> w(x.size(), 1.0f), y(x.size());
  float r = 0;
  set.rms_norm(
      {Heads<const float>(x.data(), 1, 1, n), w.data(), eps, Heads<float>(y.data(), 1, 1, n), &r},
      *pools()[0]);
  return r;
}

/// dx of one row.
std::vector<float> run_dx(const KernelSet& set, const std::vector<float>& x,
                          const std::vector<float>& w, const std::vector<float>& g, float r) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> dx(x.size());
  set.rms_norm_backward({.x = Heads<const float>(x.data(), 1, 1, n),
                         .w = w.data(),
                         .r = &r,
                         .dy = Heads<const float>(g.data(), 1, 1, n),
                         .residual = {},
                         .dx = Heads<float>(dx.data(), 1, 1, n),
                         .dw = {}},
                        *pools()[0]);
  return dx;
}

}  // namespace

TEST_CASE("rms_norm: the tests' own row gives r, and a broken rule does not") {
  Random random(41);
  std::vector<bool> seen(broken_rows().size());
  for (int repeat = 0; repeat < 40; ++repeat) {
    const int64_t n = repeat % 2 == 0 ? 5 * 1024 + 100 : 100;
    const auto x = normal_vector(random, n);
    const auto at = [&](int64_t i) { return x[static_cast<size_t>(i)]; };
    const auto root = [&](const RowRules& rules) {
      return 1.0f / sqrtf(row_by(rules, n, at, at) / static_cast<float>(n) + 1e-6f);
    };
    for (const auto* set : all_sets()) REQUIRE(run_root(*set, x, 1e-6f) == root({}));
    for (size_t i = 0; i < seen.size(); ++i) {
      seen[i] = seen[i] || root(broken_rows()[i].rules) != root({});
    }
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    CAPTURE(broken_rows()[i].name);
    CHECK(seen[i]);
  }
}

namespace {

/// The written form of dx, with a switch for each choice in it.
struct DxRules {
  bool multiplies_g_w_first = true;  // in s
  bool fuses = true;
  bool divides_first = true;      // (r r r) (s / n)
  bool scales_separately = true;  // r (g w) inside of the difference
  bool groups_g_w = true;         // r (g w), not (r g) w
};

std::vector<float> dx_by(const DxRules& rules, const std::vector<float>& x,
                         const std::vector<float>& w, const std::vector<float>& g, float r) {
  const auto n = static_cast<int64_t>(x.size());
  const float count = static_cast<float>(n);
  const auto at = [](const std::vector<float>& v) {
    return [&v](int64_t i) { return v[static_cast<size_t>(i)]; };
  };
  const auto gw = [&](int64_t i) { return at(g)(i) * at(w)(i); };
  const auto wx = [&](int64_t i) { return at(w)(i) * at(x)(i); };
  const float s = rules.multiplies_g_w_first ? row_by({}, n, gw, at(x)) : row_by({}, n, wx, at(g));
  const float cube = (r * r) * r;
  const float pull = rules.divides_first ? cube * (s / count) : (cube * s) / count;
  std::vector<float> out;
  for (int64_t i = 0; i < n; ++i) {
    const float xi = at(x)(i);
    const float push = rules.groups_g_w ? r * gw(i) : (r * at(g)(i)) * at(w)(i);
    if (!rules.scales_separately) {
      out.push_back(r * fmaf(-xi, (r * r) * (s / count), gw(i)));
    } else {
      const float product = xi * pull;
      out.push_back(rules.fuses ? fmaf(-xi, pull, push) : push - product);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("rms_norm_backward: s multiplies g w first, and dx has one written form") {
  Random random(42);
  const std::vector<std::pair<const char*, DxRules>> broken = {
      {"w x first", {.multiplies_g_w_first = false}},
      {"multiply, then subtract", {.fuses = false}},
      {"division by n last", {.divides_first = false}},
      {"r taken out of the difference", {.scales_separately = false}},
      {"r g first", {.groups_g_w = false}}};
  std::vector<bool> seen(broken.size());
  for (int repeat = 0; repeat < 10; ++repeat) {
    const int64_t n = 1500;
    const auto x = normal_vector(random, n), w = normal_vector(random, n);
    const auto g = normal_vector(random, n);
    const float r = 0.5f + static_cast<float>(random.uniform());
    const auto want = dx_by({}, x, w, g, r);
    for (const auto* set : all_sets()) REQUIRE(same_bits(run_dx(*set, x, w, g, r), want));
    for (size_t i = 0; i < broken.size(); ++i) {
      seen[i] = seen[i] || !same_bits(dx_by(broken[i].second, x, w, g, r), want);
    }
  }
  for (size_t i = 0; i < broken.size(); ++i) {
    CAPTURE(broken[i].first);
    CHECK(seen[i]);
  }
}

TEST_CASE("rms_norm_backward: lanes and blocks start from +0") {
  // 32 products that underflow to -0: from +0 their sum is +0, from the first one it is -0.
  const std::vector<float> x(32, 1e-30f), w(32, 1.0f), g(32, -1e-30f);
  const auto gw = [&](int64_t i) { return g[static_cast<size_t>(i)]; };
  const auto at = [&](int64_t i) { return x[static_cast<size_t>(i)]; };
  const float zero = row_by({}, 32, gw, at);
  const float minus = row_by({.starts_from_zero = false}, 32, gw, at);
  REQUIRE((zero == 0 && !std::signbit(zero)));
  REQUIRE((minus == 0 && std::signbit(minus)));
  // With r = 1e-30, r (g w) is -0 and the sign of s decides over the sign of dx.
  for (const auto* set : all_sets()) {
    for (const float d : run_dx(*set, x, w, g, 1e-30f)) REQUIRE((d == 0 && std::signbit(d)));
  }
  REQUIRE_FALSE(std::signbit(fmaf(-x[0], minus, -0.0f)));
}

TEST_CASE("rms_norm, rotary, swiglu: one written form each") {
  Random random(43);
  const int64_t n = 512;
  const auto x = normal_vector(random, n), w = normal_vector(random, n);
  const auto cos = normal_vector(random, n / 2), sin = normal_vector(random, n / 2);
  for (const auto* set : all_sets()) {
    auto& pool = *pools()[0];
    std::vector<float> y(x.size()), z(x.size()), dgate(x.size()), dup(x.size());
    float r = 0;
    set->rms_norm({Heads<const float>(x.data(), 1, 1, n), w.data(), 0.1f,
                   Heads<float>(y.data(), 1, 1, n), &r},
                  pool);
    const int32_t position = 0;
    set->rotary({Heads<const float>(x.data(), 1, 1, n),
                 &position,
                 {cos.data(), 1, n / 2},
                 {sin.data(), 1, n / 2},
                 false,
                 Heads<float>(z.data(), 1, 1, n)},
                pool);
    set->swiglu_backward({{x.data(), 1, n},
                          {w.data(), 1, n},
                          {w.data(), 1, n},
                          {dgate.data(), 1, n},
                          {dup.data(), 1, n}},
                         pool);
    int norm = 0, turn_low = 0, turn_high = 0, slope = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      REQUIRE(y[i] == (x[i] * r) * w[i]);
      norm += y[i] != x[i] * (r * w[i]);
      const float gate = x[i], sig = contract::sigmoid<contract::Scalar>(gate);
      REQUIRE(dup[i] == w[i] * (gate * sig));
      REQUIRE(dgate[i] == (w[i] * w[i]) * (sig * fmaf(gate, 1.0f - sig, 1.0f)));
      slope += dgate[i] != (w[i] * w[i]) * fmaf(gate * sig, 1.0f - sig, sig);
    }
    for (size_t i = 0; i < x.size() / 2; ++i) {
      const float a = x[i], b = x[i + x.size() / 2];
      REQUIRE(z[i] == fmaf(a, cos[i], -(b * sin[i])));
      REQUIRE(z[i + x.size() / 2] == fmaf(b, cos[i], a * sin[i]));
      turn_low += z[i] != fmaf(-b, sin[i], a * cos[i]);
      turn_high += z[i + x.size() / 2] != fmaf(a, sin[i], b * cos[i]);
    }
    CHECK(norm > 0);
    CHECK(turn_low > 0);
    CHECK(turn_high > 0);
    CHECK(slope > 0);
  }
}

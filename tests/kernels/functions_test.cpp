#include "kernels/functions.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "kernels/contract.h"
#include "kernels/mix.h"
#include "kernels/sweep_input.h"
#include "tests/golden.h"
#include "tests/sweep/sweep.h"

using namespace rlreplay::kernels;
namespace contract = rlreplay::contract;
namespace sweep = rlreplay::sweep;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<FunctionSet> all_sets() {
  std::vector<FunctionSet> out = {scalar_functions()};
  for (const auto& set : simd_functions()) out.push_back(set);
  return out;
}

float apply(const FunctionSet& set, Function function, float x) {
  float y = 0;
  set.apply(function, {&x, 1}, &y);
  return y;
}

/// What docs/measurements.md promises over all inputs, rounded up.
double bound(Function function) {
  switch (function) {
    case Function::kExp:
    case Function::kLog:
      return 1;
    case Function::kExpm1:
    case Function::kRsqrt:
      return 1.5;
    default:
      return 3.5;
  }
}

std::string hex(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest));
  return text;
}

/// A contract whose fma rounds twice.
struct Unfused : contract::Scalar {
  static float fma(float a, float b, float c) { return add(mul(a, b), c); }
};

}  // namespace

TEST_CASE("functions: a sample of 2^24 inputs gives the recorded digests on every target") {
  rlreplay::GoldenEntries digests;
  for (const Function function : kFunctions) {
    sweep::Options options;
    options.samples = 1 << 24;
    options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const sweep::Result result = sweep::run(function, options);
    const std::string name(to_string(function));
    CAPTURE(name, result.worst, result.got, result.want);
    CHECK(result.equal());
    digests[name] = hex(result.digests[0].digest);
    CHECK(result.wrong_special == 0);
    CHECK(result.max_error < bound(function));
    CHECK(result.max_error > 0.5);  // else nothing was measured
  }
  rlreplay::test::check_golden(RLREPLAY_GOLDEN "/functions.txt", digests);
}

TEST_CASE("functions: zeros, infinities, NaN and the ends of their range give these bits") {
  struct Case {
    Function function;
    float x, y;
  };
  const float tiny = 0x1p-149f;
  const std::vector<Case> cases = {
      {Function::kExp, 0, 1},
      {Function::kExp, -0.0f, 1},
      {Function::kExp, kInfinity, kInfinity},
      {Function::kExp, -kInfinity, 0},
      {Function::kExp, 0x1.62e42ep+6f, 0x1.ffff08p+127f},
      {Function::kExp, 0x1.62e430p+6f, kInfinity},
      {Function::kExp, -0x1.9fe368p+6f, tiny},
      {Function::kExp, -0x1.9fe36ap+6f, 0},
      {Function::kLog, 0, -kInfinity},
      {Function::kLog, -0.0f, -kInfinity},
      {Function::kLog, 1, 0},
      {Function::kLog, -1, kNan},
      {Function::kLog, -kInfinity, kNan},
      {Function::kLog, kInfinity, kInfinity},
      {Function::kExpm1, 0, 0},
      {Function::kExpm1, -0.0f, 0},
      {Function::kExpm1, tiny, tiny},
      {Function::kExpm1, -kInfinity, -1},
      {Function::kExpm1, kInfinity, kInfinity},
      {Function::kK3, -0.0f, 0},
      {Function::kK3, kInfinity, kInfinity},
      {Function::kK3, -kInfinity, kInfinity},
      {Function::kSigmoid, 0, 0.5f},
      {Function::kSigmoid, kInfinity, 1},
      {Function::kSigmoid, -kInfinity, 0},
      {Function::kSilu, -0.0f, -0.0f},
      {Function::kSilu, kInfinity, kInfinity},
      {Function::kSilu, -kInfinity, -0.0f},
      {Function::kTanh, -0.0f, -0.0f},
      {Function::kTanh, tiny, tiny},
      {Function::kTanh, kInfinity, 1},
      {Function::kTanh, -kInfinity, -1},
      {Function::kRsqrt, 0, kInfinity},
      {Function::kRsqrt, kInfinity, 0},
      {Function::kRsqrt, -1, kNan},
  };
  for (const auto& set : all_sets()) {
    for (const Case& c : cases) {
      const float y = apply(set, c.function, c.x);
      CAPTURE(set.name, to_string(c.function), c.x, y, c.y);
      const bool same = std::bit_cast<uint32_t>(y) == std::bit_cast<uint32_t>(c.y);
      CHECK((same || (std::isnan(y) && std::isnan(c.y))));
    }
    for (const Function function : kFunctions) {
      // Payloads that integer steps could turn into numbers.
      for (const uint32_t bits :
           {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7fffffffu, 0xffffffffu}) {
        CAPTURE(set.name, to_string(function), bits);
        CHECK(std::isnan(apply(set, function, std::bit_cast<float>(bits))));
      }
    }
  }
}

TEST_CASE("functions: any count of elements, in place") {
  const FunctionSet scalar = scalar_functions();
  for (const auto& set : simd_functions()) {
    for (size_t n = 0; n < 70; ++n) {
      std::vector<float> x(n + 1, -7), want(n + 1, -7);
      for (size_t i = 0; i < n; ++i) x[i] = want[i] = static_cast<float>(i) * 0.37f - 9;
      scalar.apply(Function::kSilu, {want.data(), n}, want.data());
      set.apply(Function::kSilu, {x.data(), n}, x.data());
      CAPTURE(set.name, n);
      REQUIRE(x == want);
    }
  }
}

TEST_CASE("functions: an fma that rounds twice changes the digests") {
  uint64_t fused = 0, unfused = 0;
  for (uint64_t i = 0; i < 1 << 16; ++i) {
    const uint32_t bits = sweep_input(i, 1 << 16, 1);
    const float x = std::bit_cast<float>(bits);
    fused += mix_pair(bits, contract::exp<contract::Scalar>(x));
    unfused += mix_pair(bits, contract::exp<Unfused>(x));
  }
  CHECK(fused != unfused);
}

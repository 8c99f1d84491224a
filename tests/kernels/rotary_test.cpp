#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/binary64.h"
#include "kernels/mix.h"
#include "kernels/rotary_table.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"
#include "tests/kernels/support.h"

namespace binary64 = rlreplay::kernels::binary64;
using namespace rlreplay::kernels;
using rlreplay::Error;
using rlreplay::ThreadPool;
using rlreplay::kernels::test::Random;

namespace {

using Real = long double;

/// |got - want| in units of the last place of want.
double ulps(double got, Real want) {
  const double spacing =
      std::fabs(std::nextafter(static_cast<double>(want), HUGE_VAL) - static_cast<double>(want));
  return static_cast<double>(std::fabs(got - want) / spacing);
}

double worst(double low, double high, int count, const std::function<double(double)>& got,
             const std::function<Real(Real)>& want) {
  Random random(1);
  double most = 0;
  for (int i = 0; i < count; ++i) {
    const double x = low + (high - low) * random.uniform();
    most = std::max(most, ulps(got(x), want(x)));
  }
  return most;
}

const RopeConfig kQwen{.head_size = 64, .theta = 1e6};
const RopeConfig kLlama{.head_size = 36,
                        .theta = 500000,
                        .scaling = RopeScaling::kLlama3,
                        .factor = 8,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4,
                        .original_max_position_embeddings = 512};

RopeConfig with(RopeConfig config, Rope rope) {
  config.rope = rope;
  return config;
}

/// The frequencies in extended precision.
Real true_frequency(const RopeConfig& c, int64_t i) {
  const Real plain = 1 / std::pow(static_cast<Real>(c.theta),
                                  static_cast<Real>(2 * i) / static_cast<Real>(c.head_size));
  if (c.scaling == RopeScaling::kLinear) return plain / c.factor;
  if (c.scaling == RopeScaling::kNone) return plain;
  const Real turns = c.original_max_position_embeddings * plain / (2 * std::acos(Real{-1}));
  if (turns < c.low_freq_factor) return plain / c.factor;
  if (turns > c.high_freq_factor) return plain;
  const Real smooth = (turns - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);
  return (1 - smooth) * plain / c.factor + smooth * plain;
}

uint64_t table_digest(const RotaryTable& table) {
  uint64_t sum = 0, index = 0;
  for (const auto& m : {table.cos(), table.sin()}) {
    for (int64_t i = 0; i < m.rows * m.cols; ++i) {
      sum += mix(index++ << 32 | std::bit_cast<uint32_t>(m.data[i]));
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("binary64: errors against extended precision") {
  constexpr int kCount = 200000;
  CHECK(worst(-1, 1, kCount, binary64::exp, [](Real x) { return std::exp(x); }) < 1);
  CHECK(worst(-700, 700, kCount, binary64::exp, [](Real x) { return std::exp(x); }) < 1);
  CHECK(worst(0.5, 2, kCount, binary64::log, [](Real x) { return std::log(x); }) < 1);
  CHECK(worst(1e-300, 1e300, kCount, binary64::log, [](Real x) { return std::log(x); }) < 1);
  for (const double range : {0.8, 7.0, 1000.0, 1.6e6}) {
    CAPTURE(range);
    CHECK(worst(-range, range, kCount, binary64::sin, [](Real x) { return std::sin(x); }) < 1);
    CHECK(worst(-range, range, kCount, binary64::cos, [](Real x) { return std::cos(x); }) < 1);
  }
  const auto k3 = [](Real x) { return std::expm1(x) - x; };
  for (const auto& [low, high] :
       {std::pair(-1.5, -0.01), {0.01, 1.5}, {-50.0, 1.5}, {1.0, 700.0}}) {
    CHECK(worst(low, high, kCount, binary64::expm1, [](Real x) { return std::expm1(x); }) < 6);
    CHECK(worst(low, high, kCount, binary64::k3, k3) < 6);
  }
  const auto series = [](Real x) { return x * x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))); };
  CHECK(worst(-1e-4, 1e-4, kCount, binary64::k3, series) < 6);
  CHECK(worst(-1e-4, 1e-4, kCount, binary64::expm1, [&](Real x) { return x + series(x); }) < 6);
  const auto power = [](double x) { return binary64::pow(1e6, x); };
  CHECK(worst(0, 1, kCount, power, [](Real x) { return std::pow(Real{1e6}, x); }) < 16);
}

TEST_CASE("binary64: exact places and limits") {
  CHECK(binary64::exp(0) == 1);
  CHECK(binary64::exp(-1000) == 0);
  CHECK(binary64::exp(1000) == HUGE_VAL);
  CHECK(binary64::expm1(0) == 0);
  CHECK(binary64::expm1(-1000) == -1);
  CHECK(binary64::k3(0) == 0);
  CHECK(binary64::k3(HUGE_VAL) == HUGE_VAL);
  CHECK(binary64::k3(-HUGE_VAL) == HUGE_VAL);
  CHECK(binary64::log(1) == 0);
  CHECK(binary64::cos(0) == 1);
  CHECK(binary64::sin(0) == 0);
  CHECK(binary64::pow(10000, 0) == 1);
  // The angles of float and double that lie nearest to a multiple of pi / 2 in this range.
  for (const double x : {0x1.921fb54442d18p+1, 0x1.921fb6p+0, 355.0, 710.0, 103993.0, 208341.0}) {
    CAPTURE(x);
    CHECK(ulps(binary64::sin(x), std::sin(static_cast<Real>(x))) < 1);
    CHECK(ulps(binary64::cos(x), std::cos(static_cast<Real>(x))) < 1);
  }
  CHECK_THROWS_AS(binary64::cos(1e7), Error);
  CHECK_THROWS_AS(binary64::sin(std::nan("")), Error);
}

TEST_CASE("rotary: the exact table is the true one, rounded once") {
  ThreadPool pool(2);
  RopeConfig linear = kQwen;
  linear.scaling = RopeScaling::kLinear;
  linear.factor = 4;
  for (const RopeConfig& base : {kQwen, kLlama, linear}) {
    const RopeConfig config = with(base, Rope::kExact);
    const RotaryTable table(config, 700, pool);
    int64_t different = 0;
    for (int64_t i = 0; i < config.head_size / 2; ++i) {
      const Real frequency = true_frequency(config, i);
      CHECK(ulps(inverse_frequency(config, i), frequency) < 20);
      for (int64_t p = 0; p < 700; ++p) {
        const float c = static_cast<float>(std::cos(p * frequency));
        const float s = static_cast<float>(std::sin(p * frequency));
        different += (table.cos()(p, i) != c) + (table.sin()(p, i) != s);
        REQUIRE(std::fabs(table.cos()(p, i) - c) <= 0x1p-24f);
        REQUIRE(std::fabs(table.sin()(p, i) - s) <= 0x1p-24f);
      }
    }
    CHECK(different < 3);
  }
}

TEST_CASE("rotary: the hf table rounds the frequency and the angle") {
  ThreadPool pool(1);
  for (const RopeConfig& config : {kQwen, kLlama}) {
    const RotaryTable table(config, 700, pool);
    for (int64_t i = 0; i < config.head_size / 2; ++i) {
      const double frequency = inverse_frequency(config, i);
      REQUIRE(frequency == static_cast<double>(static_cast<float>(frequency)));
      const double truth = static_cast<double>(true_frequency(config, i));
      CHECK(std::fabs(frequency / truth - 1) < 1e-6);  // the exponent is rounded too
      for (int64_t p = 0; p < 700; ++p) {
        const float angle = static_cast<float>(p) * static_cast<float>(frequency);
        REQUIRE(table.cos()(p, i) == static_cast<float>(std::cos(static_cast<double>(angle))));
        REQUIRE(table.sin()(p, i) == static_cast<float>(std::sin(static_cast<double>(angle))));
      }
    }
  }
}

TEST_CASE("rotary: bits are recorded, and no thread count changes them") {
  ThreadPool one(1), four(4);
  struct Case {
    RopeConfig config;
    uint64_t digest;
  };
  const std::vector<Case> cases = {
      {kQwen, 0x0a18ac76182bde55},
      {with(kQwen, Rope::kExact), 0x0534d2b4c42d7816},
      {kLlama, 0x86349e187c0949a7},
      {with(kLlama, Rope::kExact), 0x5a166607ee25955b},
  };
  for (const Case& c : cases) {
    CAPTURE(c.config.head_size, to_string(c.config.rope));
    CHECK(table_digest(RotaryTable(c.config, 2048, one)) == c.digest);
    CHECK(table_digest(RotaryTable(c.config, 2048, four)) == c.digest);
  }
}

TEST_CASE("rotary: odd heads, equal factors, no theta and too large an angle are refused") {
  ThreadPool pool(1);
  RopeConfig config = kQwen;
  config.head_size = 7;
  CHECK_THROWS_AS(RotaryTable(config, 1, pool), Error);
  config = kLlama;
  config.high_freq_factor = config.low_freq_factor;
  CHECK_THROWS_AS(RotaryTable(config, 1, pool), Error);
  config = kQwen;
  config.theta = 0;
  CHECK_THROWS_AS(inverse_frequency(config, 0), Error);
  CHECK_THROWS_AS(RotaryTable(kQwen, 2000000, pool), Error);
  CHECK(RotaryTable(kQwen, 0, pool).cos().rows == 0);
}

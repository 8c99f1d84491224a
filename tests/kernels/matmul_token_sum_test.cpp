#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/token_sum.h"
#include "src/base/error.h"
#include "tests/kernels/support.h"

using namespace rlreplay::kernels;

// The rules of docs/numerics.md for exact sums of gradients, at their borders: powers of two, the
// numbers next to them, ties.
TEST_CASE("token_scale: 46 - ceil(log2 weight), at most 126, zero counts as one") {
  REQUIRE(token_scale(0) == 46);
  REQUIRE(token_scale(1) == 46);
  REQUIRE(token_scale(std::nextafter(1.0, 2.0)) == 45);
  REQUIRE(token_scale(std::nextafter(1.0, 0.0)) == 46);
  REQUIRE(token_scale(0.5) == 47);
  REQUIRE(token_scale(48) == 40);
  REQUIRE(token_scale(0x1p-80) == 126);
  REQUIRE(token_scale(0x1p-79) == 125);
  REQUIRE_THROWS_AS(token_scale(-1), rlreplay::Error);
  REQUIRE_THROWS_AS(token_scale(std::nan("")), rlreplay::Error);
  REQUIRE_THROWS_AS(token_scale(std::numeric_limits<double>::infinity()), rlreplay::Error);
}

TEST_CASE("limit_exponent: 62 - scale - ceil(log2 contributions)") {
  REQUIRE(limit_exponent(46, 1) == 16);
  REQUIRE(limit_exponent(46, 2) == 15);
  REQUIRE(limit_exponent(46, 3) == 14);
  REQUIRE(limit_exponent(46, 4) == 14);
  REQUIRE(limit_exponent(46, 5) == 13);
  REQUIRE(limit_exponent(126, int64_t{1} << 40) == -104);
}

TEST_CASE("contribute: rounds ties to even, wraps, and flags what is too large") {
  Rejected rejected;
  int64_t sum = 0;
  const TokenSum to{.sum = {&sum, 1, 1}, .rejected = &rejected};
  const TokenRounding one{4.0f, 1.0};
  const auto rounded = [&](float a) {
    sum = 0;
    contribute(one, a, to, 0, 0);
    return sum;
  };
  REQUIRE(rounded(0.5f) == 0);
  REQUIRE(rounded(1.5f) == 2);
  REQUIRE(rounded(2.5f) == 2);
  REQUIRE(rounded(-0.5f) == 0);
  REQUIRE(rounded(-1.5f) == -2);
  REQUIRE(rounded(-2.5f) == -2);
  REQUIRE(rounded(std::nextafter(4.0f, 0.0f)) == 4);
  REQUIRE_FALSE(rejected.any());

  for (const float bad : {4.0f, -4.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    rejected = {};
    REQUIRE(rounded(bad) == 0);
    REQUIRE(rejected.any());
    REQUIRE(rejected.finite() == std::isfinite(bad));
  }

  rejected = {};
  sum = std::numeric_limits<int64_t>::max();
  contribute(one, 1.0f, to, 0, 0);
  REQUIRE(sum == std::numeric_limits<int64_t>::min());
  REQUIRE_FALSE(rejected.any());
}

TEST_CASE("of what was rejected the first that is no number is named, else the first") {
  Rejected rejected;
  rejected.add(1e30f, 7);
  rejected.add(-1e30f, 9);
  REQUIRE(rejected.finite());
  REQUIRE(rejected.element() == 7);
  rejected.add(INFINITY, 12);
  rejected.add(NAN, 8);
  rejected.add(1e30f, 2);
  REQUIRE_FALSE(rejected.finite());
  REQUIRE(rejected.element() == 8);
}

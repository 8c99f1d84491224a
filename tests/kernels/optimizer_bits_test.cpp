#include "tests/kernels/rows_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

/// Integers of every size up to 2^63 - 1, both signs, ties of binary32 among them.
int64_t hard_integer(Random& random) {
  const auto size = static_cast<int64_t>(random.bits() >> (1 + random.below(63)));
  switch (random.below(8)) {
    case 0:
      return 0;
    case 1:
      return random.below(2) == 0 ? INT64_MAX : -INT64_MAX;
    case 2: {  // 24 bits, a tie, and perhaps one more far below
      const int64_t shift = random.below(37);
      const int64_t tie = (1ll << 25 | random.below(1 << 24) << 1 | 1) << shift;
      return (random.below(2) == 0 ? tie : -tie) + random.below(3) - 1;
    }
    default:
      return random.below(2) == 0 ? size : -size;
  }
}

std::vector<int64_t> hard_integers(Random& random, int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  for (auto& x : out) x = hard_integer(random);
  return out;
}

std::vector<int64_t> sizes() {
  auto out = odd_sizes();
  out.insert(out.end(), {0, 3, 7, 9, 15, 16, 17, 16384, 16385, 70001});
  return out;
}

}  // namespace

TEST_CASE("token_gradient: every set rounds integers to binary32 once") {
  Random random(31);
  for (const int64_t n : sizes()) {
    const auto sum = hard_integers(random, n);
    for (const int scale : {46, 126, -3}) {
      CAPTURE(n, scale);
      require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
        std::vector<float> grad(sum.size() + 1, -7.0f);
        set.token_gradient({sum, scale, {grad.data(), sum.size()}}, pool);
        REQUIRE(grad.back() == -7.0f);
        return bytes_of(grad);
      });
    }
  }
}

TEST_CASE("sum_squares: every set gives the reference's limbs") {
  Random random(32);
  for (const int64_t n : sizes()) {
    CAPTURE(n);
    const auto sum = hard_integers(random, n);
    require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      SquareSum out = {5, 4, 3, 2, 1};
      set.sum_squares({sum, &out}, pool);
      return std::string(reinterpret_cast<const char*>(out.data()), sizeof out);
    });
  }
}

TEST_CASE("adamw: every set gives the reference's bits") {
  Random random(33);
  const auto step = adamw_step({.rate = 1e-3, .weight_decay = 0.1}, 3);
  for (const int64_t n : sizes()) {
    CAPTURE(n);
    const auto sum = hard_integers(random, n);
    const auto m = awkward_vector(random, n), w = awkward_vector(random, n);
    auto v = awkward_vector(random, n);
    for (float& x : v) x = std::fabs(x);
    require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      auto m1 = m, v1 = v, w1 = w;
      for (auto* x : {&m1, &v1, &w1}) x->push_back(-7.0f);
      const auto size = sum.size();
      set.adamw({.sum = sum,
                 .scale = 60,
                 .clip = 0.37f,
                 .step = step,
                 .m = {m1.data(), size},
                 .v = {v1.data(), size},
                 .w = {w1.data(), size}},
                pool);
      for (auto* x : {&m1, &v1, &w1}) REQUIRE(x->back() == -7.0f);
      return bytes_of(m1) + bytes_of(v1) + bytes_of(w1);
    });
  }
}

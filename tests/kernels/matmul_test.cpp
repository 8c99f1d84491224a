#include <catch2/catch.hpp>
#include <cstdlib>

#include "src/base/error.h"
#include "tests/kernels/matmul_support.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

const std::vector<int64_t> kM = {0, 1, 2, 3, 5, 11, 12, 13, 64, 67};
const std::vector<int64_t> kN = {0, 1, 7, 15, 16, 17, 31, 33, 100};
const std::vector<int64_t> kK = {0, 1, 2, 127, 128, 129, 255, 256, 257, 511, 513, 608, 900};
const std::vector<int64_t> kSegments = {1, 2, 4, 8};

bool full() { return std::getenv("RLREPLAY_FULL") != nullptr; }

int64_t pick(Random& random, const std::vector<int64_t>& of) {
  return of[static_cast<size_t>(random.below(static_cast<int64_t>(of.size())))];
}

/// A product of random numbers, some of them awkward, against the reference on every set and pool.
void compare(Random& random, int64_t m, const std::vector<int64_t>& outs, int64_t in, Inner inner,
             const DotOrder& order) {
  int64_t stacked = 0;
  for (const int64_t n : outs) stacked += n;
  const int64_t k = inner == Inner::kColumns ? in : stacked;
  const int64_t n = inner == Inner::kColumns ? stacked : in;
  const bool hard = random.below(2) == 0;
  const auto next = [&] { return hard ? awkward(random) : random.normal(); };
  Guarded<float> x(m, k), residual(m, n, 2, 1);
  Weight w(inner, outs, in);
  std::vector<float> bias(static_cast<size_t>(n));
  fill(x, next);
  fill(residual, next);
  for (auto& part : w.parts) fill(part, next);
  for (auto& b : bias) b = next();
  ProductInput input{x, w, order};
  if (random.below(2) == 0) input.bias = &bias;
  if (random.below(2) == 0) input.residual = &residual;
  CAPTURE(m, n, k, order.segments.size(), outs.size(), hard, input.bias, input.residual);
  const auto want = product(reference_kernels(), input, *pools()[0]);
  REQUIRE(want.intact());
  for (const auto& set : cpu_kernel_sets()) {
    for (auto& pool : pools()) {
      const auto got = product(set, input, *pool);
      CAPTURE(set.name, pool->threads());
      REQUIRE(got.intact());
      REQUIRE((got.bytes() == want.bytes()));
    }
  }
}

/// An order over stacked axes whose segments are uneven and partly empty, as with k and v of a kv
/// head that belongs to one of several query heads.
DotOrder fused_order(Random& random, const std::vector<int64_t>& axes, int64_t segments) {
  std::vector<std::vector<Range>> ranges;
  int64_t first = 0;
  for (const int64_t n : axes) {
    auto& axis = ranges.emplace_back();
    int64_t at = 0;
    for (int64_t s = 0; s < segments; ++s) {
      const int64_t end = s + 1 == segments ? n : at + random.below(n - at + 1);
      axis.push_back({first + at, first + end});
      at = end;
    }
    first += n;
  }
  return fused_dot_order(ranges);
}

}  // namespace

TEST_CASE("matmul: every set gives the reference's bits on odd sizes") {
  const uint64_t seed = full() ? 1 : static_cast<uint64_t>(Catch::rngSeed()) + 1;
  CAPTURE(seed);
  Random random(seed);
  REQUIRE_FALSE(cpu_kernel_sets().empty());
  for (const int64_t m : kM) {
    for (const int64_t n : kN) {
      for (const int64_t k : kK) {
        for (const int64_t segments : kSegments) {
          if (!full() && random.below(20) != 0) continue;
          compare(random, m, {n}, k, Inner::kColumns, dot_order(k, segments));
        }
      }
    }
  }
}

TEST_CASE("matmul: stacked weights and fused orders give the reference's bits") {
  Random random(2);
  for (int i = 0; i < (full() ? 500 : 50); ++i) {
    const int64_t m = pick(random, kM), in = pick(random, kN);
    const std::vector<int64_t> outs = {pick(random, kK), pick(random, kN), pick(random, kN)};
    const int64_t segments = pick(random, kSegments);
    int64_t stacked = outs[0] + outs[1] + outs[2];
    compare(random, m, outs, in, Inner::kRows, fused_order(random, outs, segments));
    compare(random, m, outs, in, Inner::kRows, dot_order(stacked, 1));
    compare(random, m, outs, in, Inner::kColumns, dot_order(in, segments));
  }
}

TEST_CASE("matmul: many rows, long axes and many segments give the reference's bits") {
  Random random(3);
  compare(random, 300, {70}, 700, Inner::kColumns, dot_order(700, 1));
  compare(random, 1, {4100}, 300, Inner::kColumns, dot_order(300, 2));
  compare(random, 2, {33}, 20000, Inner::kColumns, dot_order(20000, 16));
  compare(random, 9, {40}, 64, Inner::kColumns, dot_order(64, 128));
}

TEST_CASE("matmul: a row alone has the bits that it has in any batch") {
  constexpr int64_t kRows = 67, kIn = 700, kOut = 97;
  Random random(4);
  Guarded<float> x(kRows, kIn);
  x.fill_normal(random);
  Weight w(Inner::kColumns, {kOut}, kIn);
  w.parts[0].fill_normal(random);
  const DotOrder order = dot_order(kIn, 4);
  for (const auto& set : cpu_kernel_sets()) {
    CAPTURE(set.name);
    const std::string whole = product(set, {x, w, order}, *pools()[1]).bytes();
    for (const int64_t batch : {1, 2, 3, 7, 12, 13, 30}) {
      for (int64_t first = 0; first < kRows; first += batch) {
        const int64_t rows = std::min(batch, kRows - first);
        Guarded<float> part(rows, kIn);
        for (int64_t r = 0; r < rows; ++r) {
          std::copy_n(x.view().row(first + r), kIn, part.view().row(r));
        }
        const std::string bytes = product(set, {part, w, order}, *pools()[1]).bytes();
        REQUIRE((bytes ==
                 whole.substr(static_cast<size_t>(first * kOut) * sizeof(float), bytes.size())));
      }
    }
  }
}

TEST_CASE("matmul: the residual may be y") {
  Random random(5);
  Guarded<float> x(13, 300), y(13, 33);
  x.fill_normal(random);
  y.fill_normal(random);
  Weight w(Inner::kColumns, {33}, 300);
  w.parts[0].fill_normal(random);
  const DotOrder order = dot_order(300, 2);
  const ProductInput input{x, w, order, nullptr, &y};
  const std::string want = product(reference_kernels(), input, *pools()[0]).bytes();
  for (const auto& set : cpu_kernel_sets()) {
    Guarded<float> inout = y;
    const PackedWeight packed = w.pack(set, *pools()[1]);
    Matmul op{x.view(), &packed, &order, nullptr, inout.view(), inout.view()};
    set.matmul(op, *pools()[1]);
    REQUIRE((inout.bytes() == want));
    REQUIRE(inout.intact());
  }
}

// The payload of a NaN is no promise; which elements are NaN, and every other bit, is.
TEST_CASE("matmul: NaN and infinity reach exactly the elements that they must") {
  Random random(6);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 20; ++i) {
    Guarded<float> x(7, 600);
    x.fill_normal(random);
    Weight w(Inner::kColumns, {35}, 600);
    w.parts[0].fill_normal(random);
    x(random.below(7), random.below(600)) = i % 2 == 0 ? kInf : std::nanf("");
    w.parts[0](random.below(35), random.below(600)) = -kInf;
    x(random.below(7), random.below(600)) = 0;
    const DotOrder order = dot_order(600, 4);
    auto want = product(reference_kernels(), {x, w, order}, *pools()[0]);
    for (const auto& set : cpu_kernel_sets()) {
      auto got = product(set, {x, w, order}, *pools()[1]);
      for (int64_t r = 0; r < 7; ++r) {
        for (int64_t c = 0; c < 35; ++c) {
          if (std::isnan(want(r, c))) {
            REQUIRE(std::isnan(got(r, c)));
          } else {
            REQUIRE(std::bit_cast<uint32_t>(got(r, c)) == std::bit_cast<uint32_t>(want(r, c)));
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: a weight that another set packed, or a wrong shape, is refused") {
  Random random(7);
  Guarded<float> x(3, 20), y(3, 10);
  Weight w(Inner::kColumns, {10}, 20);
  fill(x, [] { return 1.0f; });
  fill(w.parts[0], [] { return 1.0f; });
  const DotOrder order = dot_order(20, 1), three{{{{0, 20}}, {}, {}}}, beyond{{{{0, 21}}}};
  for (const auto& set : cpu_kernel_sets()) {
    const PackedWeight packed = w.pack(set, *pools()[0]);
    const PackedWeight foreign = w.pack(reference_kernels(), *pools()[0]);
    const PackedWeight unpacked;
    Guarded<float> narrow(3, 19), small(2, 10);
    const auto refused = [&](const Matmul& op) {
      REQUIRE_THROWS_AS(set.matmul(op, *pools()[0]), rlreplay::Error);
    };
    refused({x.view(), &foreign, &order, nullptr, {}, y.view()});
    refused({x.view(), &unpacked, &order, nullptr, {}, y.view()});
    refused({narrow.view(), &packed, &order, nullptr, {}, y.view()});
    refused({x.view(), &packed, &order, nullptr, {}, small.view()});
    refused({x.view(), &packed, &order, nullptr, small.view(), y.view()});
    refused({x.view(), &packed, &three, nullptr, {}, y.view()});
    refused({x.view(), &packed, &beyond, nullptr, {}, y.view()});
  }
}

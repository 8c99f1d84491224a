#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "src/base/buffer.h"
#include "tests/kernels/matmul_support.h"

using rlreplay::ThreadPool;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

struct Tokens {
  Guarded<float> dy, x;
  std::vector<Range> leaves;
  int scale = 40;
  int64_t contributions = 1;
};

struct Sum {
  Guarded<int64_t> dw;
  Rejected rejected;
};

Sum sum_of(const KernelSet& set, const Tokens& in, std::span<const Range> leaves, ThreadPool& pool,
           int64_t start = 0, bool accumulate = true) {
  Sum out{Guarded<int64_t>(in.dy.view().cols, in.x.view().cols), {}};
  out.dw.fill(start);
  MatmulTokens op;
  op.dy = in.dy.view();
  op.x = in.x.view();
  op.leaves = leaves;
  op.dw = {out.dw.view(), in.scale, in.contributions, &out.rejected};
  op.accumulate = accumulate;
  set.matmul_tokens(op, pool);
  return out;
}

/// Samples of random length in leaves of `chunk`, with rows of padding between them.
Tokens tokens(Random& random, int64_t n, int64_t k, int64_t samples, int64_t longest,
              int64_t chunk) {
  std::vector<Range> leaves;
  int64_t rows = 0;
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t length = random.below(longest + 1);
    append_token_leaves(rows, length, chunk, leaves);
    rows += length + random.below(3);
  }
  Tokens out{Guarded<float>(rows, n), Guarded<float>(rows, k), leaves};
  out.dy.fill_normal(random, 0.1);
  out.x.fill_normal(random);
  out.contributions = std::max<int64_t>(static_cast<int64_t>(leaves.size()), 1);
  return out;
}

void require_equal(const Sum& got, const Sum& want) {
  REQUIRE(got.dw.intact());
  REQUIRE((got.dw.bytes() == want.dw.bytes()));
  REQUIRE((got.rejected == want.rejected));
}

void compare(const Tokens& in, int64_t start) {
  CAPTURE(in.dy.view().rows, in.dy.view().cols, in.x.view().cols, in.leaves.size(), in.scale);
  const Sum want = sum_of(reference_kernels(), in, in.leaves, *pools()[0], start);
  const Sum alone = sum_of(reference_kernels(), in, in.leaves, *pools()[0], 0);
  require_equal(sum_of(reference_kernels(), in, in.leaves, *pools()[0], start, false), alone);
  for (const auto& set : cpu_kernel_sets()) {
    for (auto& pool : pools()) {
      CAPTURE(set.name, pool->threads());
      require_equal(sum_of(set, in, in.leaves, *pool, start), want);
      require_equal(sum_of(set, in, in.leaves, *pool, start, false), alone);
    }
  }
}

}  // namespace

TEST_CASE("matmul_tokens: every set gives the reference's integers") {
  Random random(11);
  const int64_t kSizes[] = {1, 2, 5, 7, 11, 12, 13, 15, 16, 17, 31, 33, 64, 67, 100};
  const bool full = std::getenv("RLREPLAY_FULL") != nullptr;
  for (int i = 0; i < (full ? 600 : 60); ++i) {
    const int64_t n = kSizes[random.below(15)], k = kSizes[random.below(15)];
    Tokens in = tokens(random, n, k, random.below(6), 300, i % 2 == 0 ? 64 : 256);
    in.scale = static_cast<int>(random.below(60)) - 4;
    if (i % 3 == 0) fill(in.x, [&] { return awkward(random); });
    compare(in, static_cast<int64_t>(random.bits()));
  }
}

TEST_CASE("matmul_tokens: many tokens and wide matrices give the reference's integers") {
  Random random(12);
  compare(tokens(random, 30, 70, 9, 700, 256), 1);
  compare(tokens(random, 200, 9, 3, 90, 64), 2);
  compare(tokens(random, 9, 600, 3, 90, 64), 3);
  compare(tokens(random, 3, 3, 2, 3000, 2000), 4);
}

TEST_CASE("matmul_tokens: no tokens, no rows and no columns leave the sum as it is") {
  Random random(13);
  compare(tokens(random, 5, 7, 0, 1, 64), 5);
  compare(tokens(random, 0, 7, 3, 20, 64), 5);
  compare(tokens(random, 7, 0, 3, 20, 64), 5);
  Tokens empty = tokens(random, 5, 7, 2, 20, 64);
  empty.leaves = {{3, 3}, {0, 0}};
  compare(empty, 5);
}

TEST_CASE("matmul_tokens: sums too large for a cache are overwritten, then added to") {
  Random random(18);
  const int64_t n = 301, k = 1024;  // whole lines, as the parameters of a model have them
  Tokens in = tokens(random, n, k, 3, 150, 64);
  in.dy(in.leaves[1].begin, 300) = std::ldexp(1.0f, 30);  // large, not too large
  in.x(in.leaves[1].begin, 1023) = 1;
  const auto run = [&](const KernelSet& set, ThreadPool& pool) {
    rlreplay::Buffer<int64_t> dw(static_cast<size_t>(n * k));
    std::fill_n(dw.data(), dw.size(), int64_t{77});
    Rejected rejected;
    MatmulTokens op{in.dy.view(), in.x.view(), in.leaves, {{dw.data(), n, k}, 20}, false};
    op.dw.contributions = in.contributions;
    op.dw.rejected = &rejected;
    set.matmul_tokens(op, pool);
    op.accumulate = true;
    set.matmul_tokens(op, pool);
    REQUIRE_FALSE(rejected.any());
    return std::vector<int64_t>(dw.data(), dw.data() + dw.size());
  };
  const std::vector<int64_t> want = run(reference_kernels(), *pools()[0]);
  for (const auto& set : cpu_kernel_sets()) {
    for (auto& pool : pools()) {
      CAPTURE(set.name, pool->threads());
      REQUIRE((run(set, *pool) == want));
    }
  }
}

TEST_CASE("matmul_tokens: rounding near ties and at both sizes of contribution") {
  Random random(14);
  for (const int scale : {0, 10, 40, 45, 50, 60, 126}) {
    Tokens in{Guarded<float>(40, 13), Guarded<float>(40, 35), {}};
    in.scale = scale;
    for (int64_t t = 0; t < 40; ++t) in.leaves.push_back({t, t + 1});
    in.contributions = 1;
    // Products are k / 2 units, small and near the limit of acceptance, a few beyond it.
    fill(in.dy, [&] {
      const auto k = static_cast<float>(random.below(4001) - 2000);
      return std::ldexp(k, static_cast<int>(random.below(52)) - 1 - scale / 2);
    });
    fill(in.x, [&] { return std::ldexp(1.0f, scale / 2 - scale); });
    compare(in, 0);
  }
}

TEST_CASE("matmul_tokens: any split of the leaves, added in any order, gives the same integers") {
  Random random(15);
  const Tokens in = tokens(random, 13, 37, 12, 400, 64);
  for (const auto& set : cpu_kernel_sets()) {
    const Sum whole = sum_of(set, in, in.leaves, *pools()[1]);
    for (const size_t ranks : {2, 3, 8}) {
      std::vector<std::vector<Range>> parts(ranks);
      for (const Range& leaf : in.leaves) {
        parts[static_cast<size_t>(random.below(static_cast<int64_t>(ranks)))].push_back(leaf);
      }
      Sum total{Guarded<int64_t>(13, 37), {}};
      total.dw.fill(0);
      while (!parts.empty()) {
        const auto at = parts.begin() + random.below(static_cast<int64_t>(parts.size()));
        Sum part = sum_of(set, in, *at, *pools()[1]);
        for (int64_t n = 0; n < 13; ++n) {
          for (int64_t k = 0; k < 37; ++k) {
            total.dw(n, k) = add_wrapping(total.dw(n, k), part.dw(n, k));
          }
        }
        parts.erase(at);
      }
      require_equal(total, whole);
    }
  }
}

TEST_CASE("matmul_tokens: the gradient of one sample can be taken out again, exactly") {
  Random random(16);
  const Tokens in = tokens(random, 11, 18, 8, 200, 64);
  // Leaves of one sample are adjacent; any run of leaves will do.
  const std::span<const Range> all(in.leaves), sample = all.subspan(2, 3);
  std::vector<Range> others;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < 2 || i >= 5) others.push_back(all[i]);
  }
  for (const auto& set : cpu_kernel_sets()) {
    Sum rest = sum_of(set, in, all, *pools()[1]);
    Sum out = sum_of(set, in, sample, *pools()[1]);
    for (int64_t n = 0; n < 11; ++n) {
      for (int64_t k = 0; k < 18; ++k) rest.dw(n, k) -= out.dw(n, k);
    }
    require_equal(rest, sum_of(set, in, others, *pools()[1]));
  }
}

TEST_CASE("matmul_tokens: a planted overflow is seen in any split and gone at scale - 8") {
  Random random(17);
  Tokens in = tokens(random, 13, 37, 10, 300, 64);
  in.scale = 50;
  const Range victim = in.leaves[in.leaves.size() / 2];
  const float limit = std::ldexp(1.0f, limit_exponent(in.scale, in.contributions));
  for (int64_t t = victim.begin; t < victim.end; ++t) in.dy(t, 4) = 0;
  in.dy(victim.begin, 4) = limit;  // x of it is 1: exactly the limit, which is too much
  in.x(victim.begin, 9) = 1;
  for (const auto* set :
       {&reference_kernels(), &cpu_kernel_sets().front(), &cpu_kernel_sets().back()}) {
    CAPTURE(set->name);
    Sum flagged = sum_of(*set, in, in.leaves, *pools()[2]);
    REQUIRE(flagged.rejected.element() / 37 == 4);  // where x is larger still, too
    REQUIRE(flagged.rejected.finite());
    for (const Range& leaf : in.leaves) {
      const Sum one = sum_of(*set, in, {&leaf, 1}, *pools()[1]);
      REQUIRE(one.rejected.any() == (leaf == victim));
    }

    // The rejected contribution added nothing: without its leaf, the element is the same.
    std::vector<Range> others;
    for (const Range& leaf : in.leaves) {
      if (!(leaf == victim)) others.push_back(leaf);
    }
    Sum without = sum_of(*set, in, others, *pools()[1]);
    REQUIRE_FALSE(without.rejected.any());
    REQUIRE(without.dw(4, 9) == flagged.dw(4, 9));

    Tokens again = in;
    again.scale -= 8;
    REQUIRE_FALSE(sum_of(*set, again, again.leaves, *pools()[1]).rejected.any());

    Tokens below = in;
    below.dy(victim.begin, 4) = std::nextafter(limit, 0.0f);
    REQUIRE(sum_of(*set, below, {&victim, 1}, *pools()[1]).dw(4, 9) > 0);

    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      Tokens worse = in;
      worse.dy(victim.begin, 4) = bad;
      Sum bad_sum = sum_of(*set, worse, {&victim, 1}, *pools()[1]);
      REQUIRE(bad_sum.rejected.any());
      REQUIRE_FALSE(bad_sum.rejected.finite());
      REQUIRE(bad_sum.rejected.element() == 4 * 37);  // the whole row is spoilt
      REQUIRE(bad_sum.dw(4, 9) == 0);
      require_equal(bad_sum, sum_of(reference_kernels(), worse, {&victim, 1}, *pools()[0]));
      // The last column of a panel that is not full: padding is no element.
      worse = in;
      worse.x(victim.begin, 36) = bad;
      for (int64_t n = 0; n < 13; ++n) worse.dy(victim.begin, n) = 1;
      bad_sum = sum_of(*set, worse, {&victim, 1}, *pools()[1]);
      REQUIRE(bad_sum.rejected.element() % 37 == 36);
    }
  }
}

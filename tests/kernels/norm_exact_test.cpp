#include <numeric>

#include "tests/kernels/rows_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

/// Gradients of one parameter of each kind that is summed over tokens: norm, bias, embedding.
struct Sums {
  Guarded<int64_t> dw, dbias, dtable;
  Rejected norm_rejected, bias_rejected, table_rejected;

  bool overflow() const {
    REQUIRE((norm_rejected.any() == bias_rejected.any()));
    REQUIRE((bias_rejected.any() == table_rejected.any()));
    return norm_rejected.any();
  }
  std::string bytes() const { return dw.bytes() + dbias.bytes() + dtable.bytes(); }
};

struct Batch {
  int64_t tokens, cols;
  Guarded<float> x, dy;
  std::vector<float> w, r;
  std::vector<int32_t> ids;

  static constexpr int64_t kIds = 5;

  Batch(Random& random, int64_t t, int64_t n)
      : tokens(t), cols(n), x(t, n), dy(t, n), w(static_cast<size_t>(n), 1.5f) {
    x.fill_normal(random);
    dy.fill_normal(random, 1e-3);
    for (int64_t i = 0; i < t; ++i) {
      r.push_back(0.5f + static_cast<float>(random.uniform()));
      ids.push_back(static_cast<int32_t>(random.below(kIds)));
    }
  }

  Sums empty() const { return {{1, cols}, {1, cols}, {kIds, cols}, {}, {}, {}}; }

  /// Adds the tokens in `pick`, in that order; `padding` tokens are there but do not count.
  void add(const KernelSet& set, ThreadPool& pool, const std::vector<int64_t>& pick, int scale,
           Sums& sums, const std::vector<int64_t>& padding = {}) const {
    auto all = pick;
    all.insert(all.end(), padding.begin(), padding.end());
    std::vector<uint8_t> counts(all.size(), 1);
    std::fill(counts.begin() + static_cast<int64_t>(pick.size()), counts.end(), uint8_t{0});
    const auto n = static_cast<int64_t>(all.size());
    auto px = pick_rows(x, all, cols), pdy = pick_rows(dy, all, cols);
    std::vector<float> pr;
    std::vector<int32_t> pids;
    for (size_t i = 0; i < all.size(); ++i) {
      pr.push_back(r[static_cast<size_t>(all[i])]);
      pids.push_back(counts[i] != 0 ? ids[static_cast<size_t>(all[i])] : -1);
    }
    Guarded<float> dx(n, cols);
    set.rms_norm_backward({.x = Heads<const float>(px.view()),
                           .w = w.data(),
                           .r = pr.data(),
                           .dy = Heads<const float>(pdy.view()),
                           .residual = {},
                           .dx = Heads<float>(dx.view()),
                           .counts = counts.data(),
                           .dw = {sums.dw.view(), scale, tokens, &sums.norm_rejected}},
                          pool);
    set.bias_tokens(
        {pdy.view(), counts.data(), {sums.dbias.view(), scale, tokens, &sums.bias_rejected}}, pool);
    set.embedding_tokens(
        {pdy.view(), pids.data(), 0, {sums.dtable.view(), scale, tokens, &sums.table_rejected}},
        pool);
  }
};

Sums zeroed(const Batch& batch) {
  auto out = batch.empty();
  out.dw.fill(0);
  out.dbias.fill(0);
  out.dtable.fill(0);
  return out;
}

void merge(Guarded<int64_t>& to, Guarded<int64_t>& from, bool subtract) {
  for (int64_t r = 0; r < to.view().rows; ++r) {
    for (int64_t c = 0; c < to.view().cols; ++c) {
      const auto a = static_cast<uint64_t>(to(r, c)), b = static_cast<uint64_t>(from(r, c));
      to(r, c) = static_cast<int64_t>(subtract ? a - b : a + b);
    }
  }
}

void merge(Rejected& to, const Rejected& from) {
  if (from.any()) to.add(from.finite() ? 1.0f : INFINITY, from.element());
}

void merge(Sums& to, Sums& from, bool subtract = false) {
  merge(to.dw, from.dw, subtract);
  merge(to.dbias, from.dbias, subtract);
  merge(to.dtable, from.dtable, subtract);
  merge(to.norm_rejected, from.norm_rejected);
  merge(to.bias_rejected, from.bias_rejected);
  merge(to.table_rejected, from.table_rejected);
}

std::vector<int64_t> shuffled(Random& random, int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  for (size_t i = out.size(); i > 1; --i) {
    std::swap(out[i - 1], out[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  }
  return out;
}

/// The tokens dealt to ranks that sum alone and are merged at the end.
Sums over_ranks(const Batch& batch, Random& random, const std::vector<int64_t>& order,
                int64_t ranks, int scale) {
  std::vector<std::vector<int64_t>> parts(static_cast<size_t>(ranks));
  for (const int64_t token : order)
    parts[static_cast<size_t>(random.below(ranks))].push_back(token);
  Sums total = zeroed(batch);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& sets = cpu_kernel_sets();
    Sums part = zeroed(batch);
    batch.add(sets[i % sets.size()], *pools()[i % 3], parts[i], scale, part);
    merge(total, part);
  }
  return total;
}

constexpr int kScale = 46;

}  // namespace

TEST_CASE("token sums: any order and any split over ranks give equal integers") {
  Random random(61);
  const Batch batch(random, 90, 100);
  Sums want = zeroed(batch);
  batch.add(reference_kernels(), *pools()[0], shuffled(random, 90), kScale, want);
  REQUIRE_FALSE(want.overflow());
  for (const int64_t ranks : {1, 2, 3, 4, 7}) {
    const Sums got = over_ranks(batch, random, shuffled(random, 90), ranks, kScale);
    CAPTURE(ranks);
    REQUIRE_FALSE(got.overflow());
    REQUIRE(got.bytes() == want.bytes());
  }
}

TEST_CASE("token sums: the gradient of a sample can be taken out exactly") {
  Random random(62);
  const Batch batch(random, 60, 64);
  const auto order = shuffled(random, 60);
  const std::vector<int64_t> sample(order.begin(), order.begin() + 13);
  const std::vector<int64_t> rest(order.begin() + 13, order.end());
  Sums all = zeroed(batch), one = zeroed(batch), others = zeroed(batch);
  const auto& set = cpu_kernels();
  batch.add(set, *pools()[1], order, kScale, all);
  batch.add(set, *pools()[0], sample, kScale, one);
  batch.add(set, *pools()[2], rest, kScale, others);
  merge(all, one, true);
  REQUIRE(all.bytes() == others.bytes());
}

TEST_CASE("token sums: a contribution at the limit raises the flag, whatever the split") {
  Random random(63);
  const Batch clean(random, 32, 40);
  const float limit = std::ldexp(1.0f, limit_exponent(kScale, 32));
  struct Plant {
    float value;
    bool overflows;
  };
  for (const auto [value, overflows] :
       {Plant{limit, true}, Plant{-limit, true}, Plant{std::nextafter(limit, 0.0f), false},
        Plant{NAN, true}, Plant{INFINITY, true}, Plant{-INFINITY, true}}) {
    Batch batch = clean;
    batch.dy(17, 39) = value;
    batch.x(17, 39) = 1;
    batch.r[17] = 1;
    CAPTURE(value);
    Sums want = zeroed(batch);
    batch.add(reference_kernels(), *pools()[0], shuffled(random, 32), kScale, want);
    REQUIRE(want.overflow() == overflows);
    if (overflows) {
      REQUIRE(want.bias_rejected.element() == 39);
      REQUIRE(want.bias_rejected.finite() == std::isfinite(value));
      REQUIRE(want.table_rejected.element() == batch.ids[17] * 40 + 39);
    }
    for (const int64_t ranks : {1, 2, 4, 32}) {
      const Sums got = over_ranks(batch, random, shuffled(random, 32), ranks, kScale);
      REQUIRE(got.overflow() == overflows);
      REQUIRE((got.norm_rejected == want.norm_rejected));
      REQUIRE((got.bias_rejected == want.bias_rejected));
      REQUIRE((got.table_rejected == want.table_rejected));
      REQUIRE(got.bytes() == want.bytes());
    }
    if (std::isnan(value) || std::isinf(value)) continue;
    // The next scale holds it.
    Sums redone = zeroed(batch);
    batch.add(cpu_kernels(), *pools()[1], shuffled(random, 32), kScale - 8, redone);
    REQUIRE_FALSE(redone.overflow());
  }
}

TEST_CASE("token sums: padding neither counts nor raises the flag") {
  Random random(64);
  Batch batch(random, 20, 33);
  for (int64_t i = 0; i < 33; ++i) batch.dy(19, i) = i % 2 == 0 ? NAN : 1e30f;
  auto tokens = shuffled(random, 19);
  for (const auto& set : cpu_kernel_sets()) {
    Sums without = zeroed(batch), with = zeroed(batch);
    batch.add(set, *pools()[0], tokens, kScale, without);
    batch.add(set, *pools()[1], tokens, kScale, with, {19, 19});
    REQUIRE_FALSE(with.overflow());
    REQUIRE(with.bytes() == without.bytes());
  }
}

TEST_CASE("token sums: ties go to even, in integers of either sign") {
  // At scale 1 the unit is 1/2: quarters are ties.
  const std::vector<float> dy = {0.25f, 0.75f, -0.25f, -0.75f, 1.25f, 0.24999999f, 0.25000003f};
  const std::vector<int64_t> want = {0, 2, 0, -2, 2, 0, 1};
  require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
    std::vector<int64_t> sum(dy.size());
    Rejected rejected;
    const auto n = static_cast<int64_t>(dy.size());
    set.bias_tokens({{dy.data(), 1, n}, nullptr, {{sum.data(), 1, n}, 1, 1, &rejected}}, pool);
    REQUIRE(sum == want);
    return bytes_of(sum);
  });
  // Away from zero, up, down and towards zero each differ somewhere.
  REQUIRE(std::round(0.25f * 2) != 0);
  REQUIRE(std::ceil(0.25f * 2) != 0);
  REQUIRE(std::floor(0.75f * 2) != 2);
  REQUIRE(std::trunc(-0.75f * 2) != -2);
}

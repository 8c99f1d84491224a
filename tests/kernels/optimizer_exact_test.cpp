#include "tests/kernels/rows_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

/// A non-negative integer as bits, lowest first: the tests' own exact arithmetic.
class Big {
 public:
  Big() = default;
  explicit Big(uint64_t value, int shift = 0) {
    bits_.assign(static_cast<size_t>(shift), false);
    for (; value != 0; value >>= 1) bits_.push_back((value & 1) != 0);
  }

  void add(const Big& other) {
    bits_.resize(std::max(bits_.size(), other.bits_.size()) + 1);
    bool carry = false;
    for (size_t i = 0; i < bits_.size(); ++i) {
      const int sum = int{bits_[i]} + int{i < other.bits_.size() && other.bits_[i]} + int{carry};
      bits_[i] = (sum & 1) != 0;
      carry = sum > 1;
    }
    while (!bits_.empty() && !bits_.back()) bits_.pop_back();
  }

  /// x^2 by shifted additions.
  static Big square(uint64_t x) {
    Big out;
    for (int i = 0; i < 64; ++i) {
      if ((x >> i & 1) != 0) out.add(Big(x, i));
    }
    return out;
  }

  enum class Round { kEven, kAway, kDown };

  double to_double(Round round) const {
    double head = 0;
    const size_t n = bits_.size(), kept = std::min<size_t>(n, 53);
    for (size_t i = 0; i < kept; ++i) head = 2 * head + (bits_[n - 1 - i] ? 1 : 0);
    if (n > 53 && bits_[n - 54]) {
      bool more = false;
      for (size_t i = 0; i < n - 54; ++i) more = more || bits_[i];
      const bool odd = bits_[n - 53];
      if (round == Round::kAway || (round == Round::kEven && (more || odd))) head += 1;
    }
    return std::ldexp(head, static_cast<int>(n - kept));
  }

 private:
  std::vector<bool> bits_;
};

Big value_of(const SquareSum& sum) {
  Big out;
  for (size_t i = 0; i < sum.size(); ++i) {
    out.add(Big(static_cast<uint64_t>(sum[i]), 32 * static_cast<int>(i)));
  }
  return out;
}

double norm_by(const Big& sum, int scale, Big::Round round) {
  return std::ldexp(std::sqrt(sum.to_double(round)), -scale);
}

}  // namespace

TEST_CASE("norm: squares of int64 extremes are exact, in any order and any split") {
  Random random(71);
  std::vector<int64_t> grad = {INT64_MAX, -INT64_MAX, 0, 1, -1, 1ll << 62, -(1ll << 32), 1ll << 31};
  for (int i = 0; i < 3000; ++i) {
    const auto x = static_cast<int64_t>(random.bits() >> (1 + random.below(63)));
    grad.push_back(i % 2 == 0 ? x : -x);
  }
  Big want;
  for (const int64_t x : grad) {
    want.add(Big::square(x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x)));
  }
  std::vector<const KernelSet*> sets = {&reference_kernels()};
  for (const auto& set : cpu_kernel_sets()) sets.push_back(&set);
  for (const auto* set : sets) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      auto order = grad;
      for (size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
      }
      // Parts of several "ranks", their limbs added as a collective would.
      SquareSum total = {};
      for (size_t at = 0; at < order.size();) {
        const size_t n = std::min(order.size() - at, static_cast<size_t>(random.below(1500)));
        SquareSum part = {};
        set->sum_squares({{order.data() + at, n}, &part},
                         *pools()[static_cast<size_t>(repeat % 3)]);
        for (size_t k = 0; k < total.size(); ++k) total[k] += part[k];
        at += n;
      }
      REQUIRE(norm(total, 46) == norm_by(want, 46, Big::Round::kEven));
    }
  }
}

TEST_CASE("norm: one rounding to binary64, ties to even") {
  Random random(72);
  int away = 0, down = 0, twice = 0;
  for (int i = 0; i < 2000; ++i) {
    // 54 bits, the last one set: a tie, moved anywhere; sometimes a little more or less.
    const uint64_t tie = 1ull << 53 | (random.bits() >> 11 & ((1ull << 53) - 1)) | 1;
    const int shift = static_cast<int>(random.below(100));
    Big want(tie, shift);
    if (i % 3 == 1 && shift > 0) want.add(Big(1));
    SquareSum sum = {};  // unpropagated: a limb holds more than 32 bits
    const auto k = static_cast<size_t>(shift / 32);
    sum[k] += static_cast<int64_t>((tie & 0xffffffffu) << (shift % 32));
    sum[k + 1] += static_cast<int64_t>((tie >> 32) << (shift % 32));
    if (i % 3 == 1 && shift > 0) sum[0] += 1;
    const double got = norm(sum, 7);
    REQUIRE(got == norm_by(want, 7, Big::Round::kEven));
    away += got != norm_by(want, 7, Big::Round::kAway);
    down += got != norm_by(want, 7, Big::Round::kDown);
    double limb_by_limb = 0;
    for (size_t j = 0; j < sum.size(); ++j) {
      limb_by_limb += std::ldexp(static_cast<double>(sum[j]), 32 * static_cast<int>(j));
    }
    twice += got != std::ldexp(std::sqrt(limb_by_limb), -7);
  }
  CHECK(away > 0);
  CHECK(down > 0);
  CHECK(twice > 0);
}

TEST_CASE("norm: carries out of full limbs, zero, and the largest sums") {
  REQUIRE(norm({}, 46) == 0);
  REQUIRE(norm({1, 0, 0, 0, 0}, 3) == 0.125);
  const SquareSum full = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 0};
  REQUIRE(norm(full, 0) == norm_by(value_of(full), 0, Big::Round::kEven));
  const SquareSum ones = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
  REQUIRE(norm(ones, 0) == 0x1p80);
}

TEST_CASE("token_gradient: one rounding, ties to even; by way of binary64 there are two") {
  // 2^61 + 2^37 is a tie of binary32; one more must round up, but binary64 does not see the one.
  const std::vector<int64_t> sum = {(1ll << 61) + (1ll << 37), (1ll << 61) + (1ll << 37) + 1,
                                    (1ll << 61) + (3ll << 37), -(1ll << 61) - (1ll << 37) - 1,
                                    (1ll << 24) + 1,           (1ll << 24) + 3};
  const std::vector<float> want = {0x1p61f,         0x1.000002p61f, 0x1.000004p61f,
                                   -0x1.000002p61f, 0x1p24f,        0x1.000004p24f};
  REQUIRE(static_cast<float>(static_cast<double>(sum[1])) != want[1]);
  require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
    for (size_t n = 1; n <= sum.size(); ++n) {
      std::vector<float> grad(n);
      set.token_gradient({{sum.data(), n}, 0, grad}, pool);
      REQUIRE(grad == std::vector<float>(want.begin(), want.begin() + static_cast<int64_t>(n)));
    }
    // In whole vectors too.
    std::vector<int64_t> many;
    for (int i = 0; i < 16; ++i) many.insert(many.end(), sum.begin(), sum.end());
    std::vector<float> grad(many.size());
    set.token_gradient({many, 46, grad}, pool);
    for (size_t i = 0; i < grad.size(); ++i) REQUIRE(grad[i] == want[i % sum.size()] * 0x1p-46f);
    return bytes_of(grad);
  });
}

TEST_CASE("clip_scale: the norm is rounded to binary32 once, and never scales up") {
  REQUIRE(clip_scale(0.5, 1.0f, 1e-6f) == 1.0f);
  REQUIRE(clip_scale(0.0, 1.0f, 0.0f) == 1.0f);
  // Elsewhere it is not the quotient rounded once.
  Random random(73);
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    const double norm = 2 + random.uniform();
    const float scale = clip_scale(norm, 1.0f, 1e-6f);
    REQUIRE(scale == 1.0f / (static_cast<float>(norm) + 1e-6f));
    differ += scale != static_cast<float>(1.0 / (norm + 1e-6));
  }
  CHECK(differ > 0);
}

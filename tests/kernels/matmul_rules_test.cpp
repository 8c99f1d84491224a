#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "tests/kernels/matmul_support.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

// The rules of `dot` and `tokens`, each of which can be broken alone: with the true rules this copy
// gives the bits of every kernel set, with one broken it must not. (That a chain starts from +0 and
// not from its first product cannot be seen: only the sign of a zero could differ, and the fold
// from +0, or the conversion to an integer, removes it.)
namespace {

enum class Tree { kPerfect, kChain, kReversed };

struct Rules {
  int64_t leaf = 128;
  bool fused_multiply_add = true;
  bool ascending_k = true;
  bool fold_from_zero = true;  // else from the first leaf
  bool fold_left = true;
  Tree tree = Tree::kPerfect;
  bool ranges_restart_leaves = true;
  bool bias_after_tree = true;
  bool bias_before_residual = true;
};

using Terms = std::vector<std::pair<float, float>>;

float chain(const Terms& terms, const Rules& rules) {
  float sum = 0;
  const size_t n = terms.size();
  for (size_t i = 0; i < n; ++i) {
    const auto& [a, b] = terms[rules.ascending_k ? i : n - 1 - i];
    sum = rules.fused_multiply_add ? std::fma(a, b, sum) : a * b + sum;
  }
  return sum;
}

float fold(const std::vector<float>& values, bool from_zero, bool left) {
  if (values.empty()) return 0;
  const size_t n = values.size();
  const auto at = [&](size_t i) { return values[left ? i : n - 1 - i]; };
  float sum = from_zero ? 0.0f + at(0) : at(0);
  for (size_t i = 1; i < n; ++i) sum += at(i);
  return sum;
}

float segment_value(const std::vector<Terms>& ranges, const Rules& rules) {
  std::vector<float> leaves;
  Terms open;
  const auto close = [&] {
    if (!open.empty()) leaves.push_back(chain(open, rules));
    open.clear();
  };
  for (const Terms& range : ranges) {
    for (const auto& term : range) {
      open.push_back(term);
      if (static_cast<int64_t>(open.size()) == rules.leaf) close();
    }
    if (rules.ranges_restart_leaves) close();
  }
  close();
  return fold(leaves, rules.fold_from_zero, rules.fold_left);
}

float combine(std::vector<float> values, Tree tree) {
  if (tree == Tree::kChain) return fold(values, false, true);
  if (tree == Tree::kReversed) std::reverse(values.begin() + 1, values.end());
  for (size_t n = values.size(); n > 1; n /= 2) {
    for (size_t i = 0; i < n / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
  }
  return values.front();
}

struct Input {
  Guarded<float> x;
  Weight w;
  DotOrder order;
  std::vector<float> bias;
  Guarded<float> residual;
};

float element(const Input& in, int64_t m, int64_t n, const Rules& rules) {
  std::vector<float> segments;
  for (const auto& ranges : in.order.segments) {
    std::vector<Terms> terms;
    for (const Range& range : ranges) {
      auto& list = terms.emplace_back();
      for (int64_t k = range.begin; k < range.end; ++k) {
        list.emplace_back(in.x.view()(m, k), in.w.at(k, n));
      }
    }
    segments.push_back(segment_value(terms, rules));
  }
  if (in.bias.empty()) return combine(segments, rules.tree);
  const float bias = in.bias[static_cast<size_t>(n)], residual = in.residual.view()(m, n);
  if (!rules.bias_after_tree) segments.front() += bias;
  const float sum = combine(segments, rules.tree);
  if (!rules.bias_after_tree) return sum + residual;
  return rules.bias_before_residual ? (sum + bias) + residual : (sum + residual) + bias;
}

std::string expected(const Input& in, const Rules& rules) {
  const int64_t rows = in.x.view().rows, cols = in.residual.view().cols;
  Guarded<float> y(rows, cols);
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < cols; ++n) y(m, n) = element(in, m, n, rules);
  }
  return y.bytes();
}

std::string bytes_of(const KernelSet& set, const Input& in) {
  ProductInput input{in.x, in.w, in.order};
  if (!in.bias.empty()) input.bias = &in.bias;
  if (!in.bias.empty()) input.residual = &in.residual;
  return product(set, input, *pools()[1]).bytes();
}

std::vector<const KernelSet*> all_sets() {
  std::vector<const KernelSet*> out = {&reference_kernels()};
  for (const auto& set : cpu_kernel_sets()) out.push_back(&set);
  return out;
}

/// Every set follows the true rules on `in`, and `broken` gives other bits.
void require_seen(const char* rule, const Input& in, const Rules& broken) {
  CAPTURE(rule);
  const std::string want = expected(in, {});
  for (const KernelSet* set : all_sets()) {
    CAPTURE(set->name);
    REQUIRE((bytes_of(*set, in) == want));
  }
  REQUIRE((expected(in, broken) != want));
}

Input random_input(uint64_t seed, DotOrder order, int64_t k) {
  Random random(seed);
  Input in{Guarded<float>(3, k), Weight(Inner::kColumns, {5}, k), std::move(order),
           std::vector<float>(5), Guarded<float>(3, 5)};
  in.x.fill_normal(random);
  in.w.parts[0].fill_normal(random);
  in.residual.fill_normal(random);
  for (float& b : in.bias) b = random.normal();
  return in;
}

Rules with(const std::function<void(Rules&)>& change) {
  Rules out;
  change(out);
  return out;
}

}  // namespace

TEST_CASE("dot: each rule of summation, broken alone, is seen") {
  const Input plain = random_input(21, dot_order(2900, 4), 2900);
  require_seen("leaf = 256", plain, with([](Rules& r) { r.leaf = 256; }));
  require_seen("leaf = 127", plain, with([](Rules& r) { r.leaf = 127; }));
  require_seen("fused_multiply_add = false", plain,
               with([](Rules& r) { r.fused_multiply_add = false; }));
  require_seen("ascending_k = false", plain, with([](Rules& r) { r.ascending_k = false; }));
  require_seen("fold_left = false", plain, with([](Rules& r) { r.fold_left = false; }));
  require_seen("tree = kChain", plain, with([](Rules& r) { r.tree = Tree::kChain; }));
  require_seen("tree = kReversed", plain, with([](Rules& r) { r.tree = Tree::kReversed; }));
  require_seen("bias_after_tree = false", plain, with([](Rules& r) { r.bias_after_tree = false; }));
  // Where the product is far larger than both, they round alike in either order.
  require_seen("bias_before_residual = false", random_input(25, dot_order(3, 1), 3),
               with([](Rules& r) { r.bias_before_residual = false; }));

  const DotOrder fused{
      {{{0, 300}, {700, 800}, {900, 1000}}, {{300, 700}, {800, 900}, {1000, 1100}}}};
  require_seen("ranges_restart_leaves = false", random_input(22, fused, 1100),
               with([](Rules& r) { r.ranges_restart_leaves = false; }));
}

TEST_CASE("dot: a segment's border is rounded down") {
  const Input in = random_input(23, dot_order(1003, 4), 1003);
  Input up = in;
  for (auto& segment : up.order.segments) {
    for (Range& range : segment) {
      if (range.begin % 1003 != 0) ++range.begin;
      if (range.end % 1003 != 0) ++range.end;
    }
  }
  REQUIRE((expected(in, {}) == bytes_of(reference_kernels(), in)));
  REQUIRE((expected(up, {}) != expected(in, {})));
}

TEST_CASE("dot: a fold starts from +0, not from its first leaf") {
  // -tiny tiny underflows: fma gives -0, and +0 + -0 = +0.
  Input in{Guarded<float>(1, 1),
           Weight(Inner::kColumns, {1}, 1),
           dot_order(1, 1),
           {},
           Guarded<float>(1, 1)};
  in.x(0, 0) = -1e-30f;
  in.w.parts[0](0, 0) = 1e-30f;
  require_seen("fold_from_zero = false", in, with([](Rules& r) { r.fold_from_zero = false; }));
}

namespace {

enum class Rounding { kEven, kAway, kDown };

struct TokenRules {
  int scale_shift = 0;
  Rounding ties = Rounding::kEven;
  bool leaf_is_one_contribution = true;  // else every token is one
  bool fused_multiply_add = true;
  bool ascending_tokens = true;
  bool limit_is_excluded = true;      // |a| < limit, else <=
  bool limit_rounds_log2_up = true;   // ceil(log2 n), else floor
  bool rejected_adds_nothing = true;  // else it is clamped to the limit
  bool wraps = true;                  // else the sum saturates
};

struct TokenInput {
  Guarded<float> dy, x;
  std::vector<Range> leaves;
  int scale = 40;
  int64_t contributions = 1;
  int64_t start = 0;
};

struct TokenResult {
  int64_t sum = 0;
  Rejected rejected;
  friend bool operator==(const TokenResult&, const TokenResult&) = default;
};

int64_t rounded(double value, Rounding ties) {
  switch (ties) {
    case Rounding::kEven:
      return std::llrint(value);
    case Rounding::kAway:
      return std::llround(value);
    case Rounding::kDown:
      return static_cast<int64_t>(std::floor(value));
  }
  return 0;
}

TokenResult expected(const TokenInput& in, const TokenRules& rules) {
  const int scale = in.scale + rules.scale_shift;
  int log2 = 0;
  while ((int64_t{1} << log2) < in.contributions) ++log2;
  if (!rules.limit_rounds_log2_up && (int64_t{1} << log2) != in.contributions) --log2;
  const double limit = std::ldexp(1.0, 62 - scale - log2);
  TokenResult out{in.start, {}};
  const auto add = [&](double a) {
    const bool accepted = rules.limit_is_excluded ? std::fabs(a) < limit : std::fabs(a) <= limit;
    if (!accepted) {
      out.rejected.add(static_cast<float>(a), 0);
      if (rules.rejected_adds_nothing || std::isnan(a)) return;
      a = std::copysign(limit, a);
    }
    const int64_t value = rounded(std::ldexp(a, scale), rules.ties);
    if (int64_t sum; !rules.wraps && __builtin_add_overflow(out.sum, value, &sum)) {
      out.sum = value < 0 ? INT64_MIN : INT64_MAX;
    } else {
      out.sum = add_wrapping(out.sum, value);
    }
  };
  for (const Range& leaf : in.leaves) {
    float sum = 0;
    for (int64_t i = 0; i < leaf.size(); ++i) {
      const int64_t t = rules.ascending_tokens ? leaf.begin + i : leaf.end - 1 - i;
      const float a = in.dy.view()(t, 0), b = in.x.view()(t, 0);
      sum = rules.fused_multiply_add ? std::fma(a, b, sum) : a * b + sum;
      if (!rules.leaf_is_one_contribution) {
        add(static_cast<double>(sum));
        sum = 0;
      }
    }
    if (rules.leaf_is_one_contribution && leaf.size() > 0) add(static_cast<double>(sum));
  }
  return out;
}

TokenResult result_of(const KernelSet& set, const TokenInput& in) {
  TokenResult out{in.start, {}};
  MatmulTokens op;
  op.dy = in.dy.view();
  op.x = in.x.view();
  op.leaves = in.leaves;
  op.dw = {{&out.sum, 1, 1}, in.scale, in.contributions, &out.rejected};
  set.matmul_tokens(op, *pools()[0]);
  return out;
}

void require_seen(const char* rule, const TokenInput& in, const TokenRules& broken) {
  CAPTURE(rule);
  const TokenResult want = expected(in, {});
  for (const KernelSet* set : all_sets()) {
    CAPTURE(set->name);
    REQUIRE(result_of(*set, in) == want);
  }
  REQUIRE_FALSE(expected(in, broken) == want);
}

TokenRules token_rules(const std::function<void(TokenRules&)>& change) {
  TokenRules out;
  change(out);
  return out;
}

/// One contribution a value, with x = 1.
TokenInput contributions(const std::vector<float>& values, int scale) {
  const auto n = static_cast<int64_t>(values.size());
  TokenInput in{Guarded<float>(n, 1), Guarded<float>(n, 1), {}, scale, n};
  for (int64_t t = 0; t < n; ++t) {
    in.dy(t, 0) = values[static_cast<size_t>(t)];
    in.x(t, 0) = 1;
    in.leaves.push_back({t, t + 1});
  }
  return in;
}

}  // namespace

TEST_CASE("tokens: each rule of summation, broken alone, is seen") {
  Random random(24);
  TokenInput in{Guarded<float>(300, 1), Guarded<float>(300, 1), {}, 46, 8};
  in.dy.fill_normal(random);
  in.x.fill_normal(random);
  append_token_leaves(0, 190, 64, in.leaves);
  append_token_leaves(190, 110, 64, in.leaves);
  require_seen("scale_shift = -1", in, token_rules([](TokenRules& r) { r.scale_shift = -1; }));
  require_seen("scale_shift = 1", in, token_rules([](TokenRules& r) { r.scale_shift = 1; }));
  require_seen("leaf_is_one_contribution = false", in,
               token_rules([](TokenRules& r) { r.leaf_is_one_contribution = false; }));
  require_seen("fused_multiply_add = false", in,
               token_rules([](TokenRules& r) { r.fused_multiply_add = false; }));
  require_seen("ascending_tokens = false", in,
               token_rules([](TokenRules& r) { r.ascending_tokens = false; }));

  // Leaves that ignore where a sample begins.
  TokenInput across = in;
  across.leaves.clear();
  append_token_leaves(0, 300, 64, across.leaves);
  REQUIRE_FALSE(expected(across, {}) == expected(in, {}));
}

TEST_CASE("tokens: ties go to the even integer") {
  const TokenInput in = contributions({0.5f, 2.5f, -4.5f, 1.5f, 0.25f, 0.75f}, 0);
  require_seen("ties = kAway", in, token_rules([](TokenRules& r) { r.ties = Rounding::kAway; }));
  require_seen("ties = kDown", in, token_rules([](TokenRules& r) { r.ties = Rounding::kDown; }));
}

TEST_CASE("tokens: the limit is excluded and falls with every doubling of the contributions") {
  const float limit = 0x1p20f;  // of 4 contributions, and of 3, at scale 40
  require_seen("limit_is_excluded = false", contributions({limit, 1, 2, 3}, 40),
               token_rules([](TokenRules& r) { r.limit_is_excluded = false; }));
  require_seen("limit_rounds_log2_up = false", contributions({limit * 1.5f, 1, 2}, 40),
               token_rules([](TokenRules& r) { r.limit_rounds_log2_up = false; }));
  require_seen("rejected_adds_nothing = false", contributions({limit * 1.5f, 1, 2}, 40),
               token_rules([](TokenRules& r) { r.rejected_adds_nothing = false; }));
}

TEST_CASE("tokens: sums wrap") {
  TokenInput in = contributions({1, -1, 1, 1}, 0);
  in.start = INT64_MAX;
  require_seen("wraps = false", in, token_rules([](TokenRules& r) { r.wraps = false; }));
}

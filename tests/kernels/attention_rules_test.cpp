#include "tests/kernels/attention_rules.h"

#include <catch2/catch.hpp>

#include "tests/kernels/attention_support.h"
#include "tests/kernels/sets.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

enum class Data { kNormal, kSmall };  // kSmall: values and gradients

/// One sample, computed by the fastest set and by the tests' own copy.
class Compared {
 public:
  Compared(int64_t tokens, int64_t heads, int64_t group, int64_t size, Data data)
      : batch_({.lengths = {tokens}, .heads = heads, .group = group, .size = size}) {
    Random random(static_cast<uint64_t>(tokens));
    batch_.fill([&] { return random.normal(); });
    if (data == Data::kSmall) {
      for (auto* x : {&batch_.v, &batch_.dout}) {
        for (int64_t r = 0; r < tokens; ++r) {
          for (int64_t c = 0; c < x->view().cols; ++c) (*x)(r, c) = small(random);
        }
      }
    }
    batch_.forward(cpu_kernels(), *pools()[1]);
    batch_.backward(cpu_kernels(), *pools()[1]);
  }

  bool equal(const AttentionRules& rules) const {
    const auto& s = batch_.shape;
    RuledAttention copy(rules, batch_.tokens, s.heads, batch_.kv_heads, s.size);
    copy.q = numbers(batch_.q);
    copy.k = numbers(batch_.k);
    copy.v = numbers(batch_.v);
    copy.dout = numbers(batch_.dout);
    copy.run();
    return same(copy.out, batch_.out) && same(copy.lse, batch_.lse) &&
           same(copy.delta, batch_.delta) && same(copy.dq, batch_.dq) && same(copy.dk, batch_.dk) &&
           same(copy.dv, batch_.dv);
  }

 private:
  /// Zeros of both signs and subnormals: products with probabilities underflow.
  static float small(Random& random) {
    const float x = static_cast<float>(random.below(3)) * 1e-45f;
    return random.below(2) == 0 ? x : -x;
  }
  static std::vector<float> numbers(const Guarded<float>& x) {
    const std::string bytes = x.bytes();
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  static bool same(const std::vector<float>& a, const Guarded<float>& b) {
    const std::string bytes = b.bytes();
    return a.size() * sizeof(float) == bytes.size() &&
           std::memcmp(a.data(), bytes.data(), bytes.size()) == 0;
  }

  AttentionBatch batch_;
};

}  // namespace

TEST_CASE("attention: each rule of the order, broken, changes bits") {
  // Many blocks and heads; more than two splits; numbers that underflow.
  const Compared heads(150, 6, 3, 40, Data::kNormal);
  const Compared splits(1030, 1, 1, 3, Data::kNormal);
  const Compared zeros(70, 2, 2, 16, Data::kSmall);
  REQUIRE(heads.equal({}));
  REQUIRE(splits.equal({}));
  REQUIRE(zeros.equal({}));

  CHECK_FALSE(heads.equal({.key_block = 32}));
  CHECK_FALSE(heads.equal({.key_block = 128}));
  CHECK_FALSE(splits.equal({.key_split = 256}));
  CHECK_FALSE(splits.equal({.key_split = 1024}));
  CHECK_FALSE(heads.equal({.lanes = 16}));
  CHECK_FALSE(heads.equal({.lanes = 64}));
  CHECK_FALSE(heads.equal({.scale_query = true}));
  CHECK_FALSE(heads.equal({.scale_by_division = true}));
  CHECK_FALSE(heads.equal({.score_backward = true}));
  CHECK_FALSE(zeros.equal({.start_with_first = true}));
  CHECK_FALSE(heads.equal({.fold_blocks = true}));
  CHECK_FALSE(heads.equal({.plain_l = true}));
  CHECK_FALSE(heads.equal({.row_over_split = true}));
  CHECK_FALSE(heads.equal({.global_max = true}));
  CHECK_FALSE(zeros.equal({.mask_with_zero = true}));
  CHECK_FALSE(splits.equal({.merge_right = true}));
  CHECK_FALSE(splits.equal({.plain_merge = true}));
  CHECK_FALSE(zeros.equal({.merge_lone = true}));
  CHECK_FALSE(heads.equal({.divide = true}));
  CHECK_FALSE(heads.equal({.lse_from_two = true}));

  CHECK_FALSE(heads.equal({.query_block = 32}));
  CHECK_FALSE(heads.equal({.query_block = 128}));
  CHECK_FALSE(heads.equal({.dq_block = 32}));
  CHECK_FALSE(heads.equal({.dq_block = 128}));
  CHECK_FALSE(heads.equal({.heads_descending = true}));
  CHECK_FALSE(heads.equal({.heads_apart = true}));
  CHECK_FALSE(heads.equal({.heads_innermost = true}));
  CHECK_FALSE(zeros.equal({.fold_from_first = true}));
  CHECK_FALSE(heads.equal({.scale_early = true}));
  CHECK_FALSE(heads.equal({.spread_ds = true}));
  CHECK_FALSE(heads.equal({.fused_ds = true}));
  CHECK_FALSE(heads.equal({.p_from_sum = true}));
}

#include <catch2/catch.hpp>

#include "tests/kernels/matmul_support.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

/// Columns [range.begin, range.end) of a matrix.
template <class T>
Matrix<const T> columns(Matrix<const T> m, Range range) {
  return {m.data + range.begin, m.rows, range.size(), m.stride};
}

template <class T>
Matrix<const T> rows(Matrix<const T> m, Range range) {
  return {m.row(range.begin), range.size(), m.cols, m.stride};
}

struct Rest {
  std::vector<float> bias;
  Guarded<float> residual;
};

std::string combine(const KernelSet& set, const std::vector<Guarded<float>>& parts,
                    const Rest& rest) {
  std::vector<Matrix<const float>> views;
  for (const auto& part : parts) views.push_back(part.view());
  Guarded<float> y(rest.residual.view().rows, rest.residual.view().cols, 2, 1);
  CombineSegments op{views, rest.bias.empty() ? nullptr : rest.bias.data(), {}, y.view()};
  if (!rest.bias.empty()) op.residual = rest.residual.view();
  set.combine_segments(op, *pools()[1]);
  REQUIRE(y.intact());
  return y.bytes();
}

/// What one rank computes: its columns of x, its part of the weight, its subtree.
Guarded<float> part(const KernelSet& set, Matrix<const float> x, const PackWeight& weight,
                    const DotOrder& order) {
  PackedWeight packed;
  set.pack_weight(weight, packed, *pools()[1]);
  Guarded<float> y(x.rows, packed.n);
  set.matmul({x, &packed, &order, nullptr, {}, y.view()}, *pools()[1]);
  return y;
}

Rest random_rest(Random& random, int64_t m, int64_t n) {
  Rest out{std::vector<float>(static_cast<size_t>(n)), Guarded<float>(m, n)};
  for (float& b : out.bias) b = random.normal();
  out.residual.fill_normal(random);
  return out;
}

}  // namespace

TEST_CASE("combine_segments: every set gives the reference's bits") {
  Random random(31);
  for (const size_t count : {1, 2, 4, 8, 16}) {
    for (const int64_t m : {0, 1, 3, 33}) {
      for (const int64_t n : {0, 1, 15, 16, 17, 100}) {
        Rest rest = random_rest(random, m, n);
        if (random.below(3) == 0) rest.bias.clear();
        std::vector<Guarded<float>> parts;
        for (size_t r = 0; r < count; ++r) {
          fill(parts.emplace_back(m, n), [&] { return awkward(random); });
        }
        const std::string want = combine(reference_kernels(), parts, rest);
        for (const auto& set : cpu_kernel_sets()) {
          CAPTURE(set.name, count, m, n);
          REQUIRE((combine(set, parts, rest) == want));
        }
      }
    }
  }
}

TEST_CASE("segments on 1, 2, 4 and 8 ranks, combined after the move, give the bits of one") {
  constexpr int64_t kRows = 13, kOut = 37, kSegments = 8;
  Random random(32);
  for (const int64_t k : {5, 613, 4100}) {
    Guarded<float> x(kRows, k), w(kOut, k);
    x.fill_normal(random);
    w.fill_normal(random);
    const Rest rest = random_rest(random, kRows, kOut);
    const DotOrder order = dot_order(k, kSegments);
    std::string want;
    for (const auto* set : {&reference_kernels(), &cpu_kernels()}) {
      for (const int64_t ranks : {1, 2, 4, 8}) {
        std::vector<Guarded<float>> parts;
        for (int64_t r = 0; r < ranks; ++r) {
          const int64_t count = kSegments / ranks;
          const Range mine = {segment(k, kSegments, r * count).begin,
                              segment(k, kSegments, (r + 1) * count - 1).end};
          const Matrix<const float> weight = columns<float>(w.view(), mine);
          parts.push_back(part(*set, columns<float>(x.view(), mine),
                               {{&weight, 1}, Inner::kColumns}, order.part(r * count, count)));
        }
        CAPTURE(set->name, k, ranks);
        const std::string got = combine(*set, parts, rest);
        if (want.empty()) want = got;
        REQUIRE((got == want));
      }
    }
  }
}

// dx of q, k, v: 8 segments, 16 query heads of 24, 4 kv heads that belong to the segments of query
// heads 0, 4, 8 and 12; a rank without a kv head contributes nothing of k and v.
TEST_CASE("fused axes on 1, 2, 4 and 8 ranks give the bits of one") {
  constexpr int64_t kHead = 24, kHeads = 16, kKvHeads = 4, kSegments = 8, kIn = 50, kRows = 9;
  const auto axis = [&](int64_t heads, int64_t first_segment, int64_t segments, int64_t begin) {
    // Ranges, from `begin` on, of the heads that belong to each of the segments.
    std::vector<Range> out;
    int64_t at = begin;
    for (int64_t s = first_segment; s < first_segment + segments; ++s) {
      int64_t own = 0;
      for (int64_t h = 0; h < heads; ++h) own += h * (kHeads / heads) / (kHeads / kSegments) == s;
      out.push_back({at, at + own * kHead});
      at += own * kHead;
    }
    return out;
  };
  Random random(33);
  Guarded<float> dq(kRows, kHeads * kHead), dk(kRows, kKvHeads * kHead),
      dv(kRows, kKvHeads * kHead);
  Guarded<float> wq(kHeads * kHead, kIn), wk(kKvHeads * kHead, kIn), wv(kKvHeads * kHead, kIn);
  for (auto* m : {&dq, &dk, &dv, &wq, &wk, &wv}) m->fill_normal(random);
  const Rest rest = random_rest(random, kRows, kIn);
  std::string want;
  for (const auto* set : {&reference_kernels(), &cpu_kernels()}) {
    for (const int64_t ranks : {1, 2, 4, 8}) {
      std::vector<Guarded<float>> parts;
      const int64_t count = kSegments / ranks;
      for (int64_t r = 0; r < ranks; ++r) {
        std::vector<std::vector<Range>> local;
        std::vector<Matrix<const float>> weights, grads;
        int64_t at = 0;
        const auto add = [&](int64_t heads, const Guarded<float>& w, const Guarded<float>& g) {
          const auto global = axis(heads, 0, kSegments, 0);
          const Range mine = {global[static_cast<size_t>(r * count)].begin,
                              global[static_cast<size_t>((r + 1) * count - 1)].end};
          local.push_back(axis(heads, r * count, count, at));
          weights.push_back(rows<float>(w.view(), mine));
          grads.push_back(columns<float>(g.view(), mine));
          at += mine.size();
        };
        add(kHeads, wq, dq);
        add(kKvHeads, wk, dk);
        add(kKvHeads, wv, dv);
        Guarded<float> dy(kRows, at);
        for (int64_t t = 0; t < kRows; ++t) {
          float* to = dy.view().row(t);
          for (const auto& g : grads) to = std::copy_n(g.row(t), g.cols, to);
        }
        parts.push_back(part(*set, dy.view(), {weights, Inner::kRows}, fused_dot_order(local)));
      }
      CAPTURE(set->name, ranks);
      const std::string got = combine(*set, parts, rest);
      if (want.empty()) want = got;
      REQUIRE((got == want));
    }
  }
}

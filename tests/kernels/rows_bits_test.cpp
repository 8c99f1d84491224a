#include "tests/kernels/rows_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

template <class Check>
void for_shapes(Check check) {
  for (const int64_t rows : row_counts()) {
    for (const int64_t cols : odd_sizes()) {
      CAPTURE(rows, cols);
      check(rows, cols);
    }
  }
}

}  // namespace

TEST_CASE("swiglu and its backward: every set gives the reference's bits, in place too") {
  Random random(2);
  for_shapes([&](int64_t rows, int64_t cols) {
    const auto gate = awkward_matrix(random, rows, cols), up = awkward_matrix(random, rows, cols);
    const auto dout = awkward_matrix(random, rows, cols);
    const auto forward = require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      Guarded<float> out(rows, cols);
      set.swiglu({gate.view(), up.view(), out.view()}, pool);
      REQUIRE(out.intact());
      return out.bytes();
    });
    const auto backward = require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      Guarded<float> dgate(rows, cols), dup(rows, cols);
      set.swiglu_backward({gate.view(), up.view(), dout.view(), dgate.view(), dup.view()}, pool);
      REQUIRE((dgate.intact() && dup.intact()));
      return dgate.bytes() + dup.bytes();
    });
    require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      auto g = gate, u = up, out = gate;
      set.swiglu({out.view(), up.view(), out.view()}, pool);
      REQUIRE(out.bytes() == forward);
      set.swiglu_backward({g.view(), u.view(), dout.view(), g.view(), u.view()}, pool);
      REQUIRE((g.intact() && u.intact() && out.intact()));
      REQUIRE(g.bytes() + u.bytes() == backward);
      return backward;
    });
  });
}

TEST_CASE("rotary: every set gives the reference's bits on heads inside fused rows") {
  Random random(3);
  for (const int64_t tokens : row_counts()) {
    for (const int64_t dim : {2, 24, 30, 32, 48, 64, 100, 128}) {
      const int64_t heads = 1 + random.below(4), all = heads + 2;
      auto x = awkward_matrix(random, tokens, all * dim);
      const auto cos = awkward_matrix(random, 40, dim / 2),
                 sin = awkward_matrix(random, 40, dim / 2);
      std::vector<int32_t> positions;
      for (int64_t t = 0; t < tokens; ++t) {
        positions.push_back(static_cast<int32_t>(random.below(40)));
      }
      for (const bool inverse : {false, true}) {
        CAPTURE(tokens, dim, heads, inverse);
        const auto want = require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
          Guarded<float> y(tokens, heads * dim);
          set.rotary({heads_of(x.view(), 1, heads, dim), positions.data(), cos.view(), sin.view(),
                      inverse, heads_of(y.view(), 0, heads, dim)},
                     pool);
          REQUIRE(y.intact());
          return y.bytes();
        });
        require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
          auto y = x;
          const auto view = heads_of(y.view(), 1, heads, dim);
          set.rotary({view, positions.data(), cos.view(), sin.view(), inverse, view}, pool);
          REQUIRE(y.intact());
          std::string got;
          for (int64_t t = 0; t < tokens; ++t) {
            got.append(reinterpret_cast<const char*>(view.at(t, 0)),
                       static_cast<size_t>(heads * dim) * sizeof(float));
          }
          REQUIRE(got == want);
          return y.bytes();  // the other heads are as they were
        });
      }
    }
  }
}

TEST_CASE("embedding: rows are copied, rows of other ranks' ids are left alone") {
  Random random(4);
  for (const int64_t tokens : row_counts()) {
    for (const int64_t cols : odd_sizes()) {
      const auto table = awkward_matrix(random, 7, cols);
      std::vector<int32_t> ids;
      for (int64_t t = 0; t < tokens; ++t)
        ids.push_back(static_cast<int32_t>(random.below(20)) - 2);
      require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
        Guarded<float> out(tokens, cols);
        out.fill(7.0f);
        set.embedding({table.view(), ids.data(), 5, out.view()}, pool);
        REQUIRE(out.intact());
        for (int64_t t = 0; t < tokens; ++t) {
          const int64_t row = ids[static_cast<size_t>(t)] - 5;
          const float want = row >= 0 && row < 7 ? table.view()(row, cols - 1) : 7.0f;
          REQUIRE(std::bit_cast<uint32_t>(out(t, cols - 1)) == std::bit_cast<uint32_t>(want));
        }
        return out.bytes();
      });
    }
  }
}

TEST_CASE("row operations: a token's bits do not depend on its batch") {
  Random random(5);
  const int64_t dim = 48, heads = 3, cols = heads * dim;
  const auto x = awkward_matrix(random, 9, cols), y = awkward_matrix(random, 9, cols);
  const auto w = awkward_vector(random, dim);
  const auto cos = awkward_matrix(random, 9, dim / 2), sin = awkward_matrix(random, 9, dim / 2);
  const auto run = [&](const KernelSet& set, ThreadPool& pool, const std::vector<int64_t>& pick) {
    const auto n = static_cast<int64_t>(pick.size());
    auto a = pick_rows(x, pick, cols), b = pick_rows(y, pick, cols);
    const std::vector<int32_t> positions(pick.begin(), pick.end());
    std::vector<float> r(pick.size() * heads);
    Guarded<float> normed(n, cols), dx(n, cols), turned(n, cols), out(n, cols);
    const auto in = heads_of<const float>(a.view(), 0, heads, dim);
    set.rms_norm({in, w.data(), 1e-6f, heads_of(normed.view(), 0, heads, dim), r.data()}, pool);
    set.rms_norm_backward({.x = in,
                           .w = w.data(),
                           .r = r.data(),
                           .dy = heads_of<const float>(b.view(), 0, heads, dim),
                           .residual = {},
                           .dx = heads_of(dx.view(), 0, heads, dim),
                           .dw = {}},
                          pool);
    set.rotary({in, positions.data(), cos.view(), sin.view(), false,
                heads_of(turned.view(), 0, heads, dim)},
               pool);
    set.swiglu({a.view(), b.view(), out.view()}, pool);
    // The bytes of every row, by the row of x that it came from.
    std::vector<std::string> rows(9);
    for (size_t i = 0; i < pick.size(); ++i) {
      for (auto* m : {&normed, &dx, &turned, &out}) {
        rows[static_cast<size_t>(pick[i])].append(
            reinterpret_cast<const char*>(m->view().row(static_cast<int64_t>(i))),
            static_cast<size_t>(cols) * sizeof(float));
      }
    }
    return rows;
  };
  std::vector<const KernelSet*> sets = {&reference_kernels()};
  for (const auto& set : cpu_kernel_sets()) sets.push_back(&set);
  for (const auto* set : sets) {
    auto& pool = *pools()[1];
    const auto want = run(*set, pool, {0, 1, 2, 3, 4, 5, 6, 7, 8});
    for (const auto& pick : std::vector<std::vector<int64_t>>{{4}, {8, 0}, {3, 5, 1, 7, 2}}) {
      const auto got = run(*set, pool, pick);
      for (const int64_t row : pick) {
        REQUIRE(got[static_cast<size_t>(row)] == want[static_cast<size_t>(row)]);
      }
    }
  }
}

#include "tests/kernels/rows_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

struct Shape {
  int64_t tokens;
  int64_t heads;
  int64_t dim;
};

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (const int64_t tokens : row_counts()) {
    for (const int64_t dim : odd_sizes()) out.push_back({tokens, 1, dim});
    for (const int64_t dim : {24, 48, 64, 100, 128}) out.push_back({tokens, 5, dim});
  }
  return out;
}

std::vector<uint8_t> some_count(Random& random, int64_t tokens) {
  std::vector<uint8_t> out(static_cast<size_t>(tokens));
  for (auto& c : out) c = random.below(4) != 0;
  return out;
}

}  // namespace

TEST_CASE("rms_norm: every set gives the reference's bits on heads inside fused rows") {
  Random random(11);
  for (const Shape& shape : shapes()) {
    const int64_t tokens = shape.tokens, heads = shape.heads, dim = shape.dim;
    CAPTURE(tokens, heads, dim);
    auto x = awkward_matrix(random, tokens, (heads + 2) * dim);
    const auto w = awkward_vector(random, dim);
    const auto want = require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      Guarded<float> y(tokens, heads * dim);
      std::vector<float> r(static_cast<size_t>(tokens * heads) + 1, -7.0f);
      set.rms_norm({heads_of(x.view(), 1, heads, dim), w.data(), 1e-6f,
                    heads_of(y.view(), 0, heads, dim), r.data()},
                   pool);
      REQUIRE(y.intact());
      REQUIRE(r.back() == -7.0f);
      return y.bytes() + bytes_of(r);
    });
    require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      auto y = x;
      std::vector<float> r(static_cast<size_t>(tokens * heads));
      const auto view = heads_of(y.view(), 1, heads, dim);
      set.rms_norm({view, w.data(), 1e-6f, view, r.data()}, pool);
      REQUIRE(y.intact());
      for (int64_t t = 0; t < tokens; ++t) {
        const auto bytes = static_cast<size_t>(heads * dim) * sizeof(float);
        REQUIRE(std::memcmp(view.at(t, 0), want.data() + static_cast<size_t>(t) * bytes, bytes) ==
                0);
      }
      return y.bytes();
    });
  }
}

TEST_CASE("rms_norm_backward: every set gives the reference's bits and integers") {
  Random random(12);
  for (const Shape& shape : shapes()) {
    const int64_t tokens = shape.tokens, heads = shape.heads, dim = shape.dim;
    CAPTURE(tokens, heads, dim);
    const auto x = awkward_matrix(random, tokens, heads * dim);
    const auto dy = awkward_matrix(random, tokens, (heads + 1) * dim);
    const auto residual = awkward_matrix(random, tokens, heads * dim);
    const auto w = awkward_vector(random, dim);
    const auto counts = some_count(random, tokens);
    std::vector<float> r(static_cast<size_t>(tokens * heads));
    for (float& value : r) value = 0.5f + static_cast<float>(random.uniform());
    // Without a residual and with one; dx apart from dy and in its place; all heads or some.
    for (const int form : {0, 1, 2, 3}) {
      const bool in_place = form == 2;
      require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
        auto g = dy;
        Guarded<float> apart(tokens, heads * dim);
        Guarded<int64_t> dw(1, dim);
        dw.fill(1);
        Rejected rejected;
        const auto gv = heads_of(g.view(), 1, heads, dim);
        set.rms_norm_backward({.x = heads_of(x.view(), 0, heads, dim),
                               .w = w.data(),
                               .r = r.data(),
                               .dy = gv,
                               .residual = form == 1 ? heads_of(residual.view(), 0, heads, dim)
                                                     : Heads<const float>(),
                               .dx = in_place ? gv : heads_of(apart.view(), 0, heads, dim),
                               .counts = form == 0 ? nullptr : counts.data(),
                               .dw_heads = form == 3 ? Range{1, 3} : Range{0, INT64_MAX},
                               .dw = {dw.view(), 20, tokens * heads, &rejected}},
                              pool);
        REQUIRE((g.intact() && apart.intact() && dw.intact()));
        REQUIRE_FALSE(rejected.any());
        if (!in_place) {
          REQUIRE(g.bytes() == dy.bytes());
          return apart.bytes() + dw.bytes();
        }
        return g.bytes() + dw.bytes();
      });
    }
  }
}

TEST_CASE("bias_tokens and embedding_tokens: every set gives the reference's integers") {
  Random random(13);
  for (const int64_t tokens : row_counts()) {
    for (const int64_t cols : odd_sizes()) {
      CAPTURE(tokens, cols);
      const auto dy = awkward_matrix(random, tokens, cols);
      const auto counts = some_count(random, tokens);
      std::vector<int32_t> ids;  // few, so that they repeat; some outside
      for (int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(random.below(6)) - 1);
      require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
        Guarded<int64_t> dbias(1, cols), dtable(3, cols);
        dbias.fill(-5);
        dtable.fill(9);
        Rejected rejected;
        set.bias_tokens({dy.view(), counts.data(), {dbias.view(), 30, tokens, &rejected}}, pool);
        set.bias_tokens({dy.view(), nullptr, {dbias.view(), 30, tokens, &rejected}}, pool);
        set.embedding_tokens({dy.view(), ids.data(), 1, {dtable.view(), 30, tokens, &rejected}},
                             pool);
        REQUIRE((dbias.intact() && dtable.intact()));
        REQUIRE_FALSE(rejected.any());
        return dbias.bytes() + dtable.bytes();
      });
    }
  }
}

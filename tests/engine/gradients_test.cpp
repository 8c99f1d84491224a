#include "src/engine/gradients.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/engine/models.h"

using namespace rlreplay;
using namespace rlreplay::engine;

namespace {

constexpr int64_t kOld = 77;

/// What a step before has left in the sums.
void soil(const ParameterTable& parameters, Gradients& gradients) {
  for (size_t i = 0; i < parameters.list.size(); ++i) {
    const kernels::Matrix<int64_t> sum = gradients.sum(static_cast<int>(i));
    std::fill_n(sum.data, parameters.list[i].size(), kOld);
  }
}

bool all_are(const kernels::Matrix<int64_t>& sum, int64_t value) {
  return std::all_of(sum.data, sum.data + sum.rows * sum.cols,
                     [&](int64_t x) { return x == value; });
}

}  // namespace

TEST_CASE("gradients: a product's first contribution overwrites, everything else starts at zero") {
  const ModelConfig config = engine::test::small_model(Architecture::kQwen2);
  const ParameterTable parameters = make_parameters(config);
  const LayerParameters& p = parameters.layers[0];
  Gradients gradients(parameters);
  soil(parameters, gradients);
  gradients.begin(40, {10, 2});

  const kernels::MatmulTokens first = gradients.product({}, {}, {}, {p.q, p.k, p.v});
  REQUIRE_FALSE(first.accumulate);
  REQUIRE(all_are(first.dw.sum, kOld));
  REQUIRE(first.dw.sum.rows == (config.heads + 2 * config.kv_heads) * config.head_dim);
  REQUIRE(gradients.product({}, {}, {}, {p.q, p.k, p.v}).accumulate);
  REQUIRE(all_are(first.dw.sum, kOld));

  REQUIRE(all_are(gradients.token_sum({p.input_norm}).sum, 0));
  // One whose first contribution is no product is added to from then on, by products too.
  REQUIRE(all_are(gradients.token_sum({parameters.embedding}).sum, 0));
  REQUIRE(gradients.product({}, {}, {}, {parameters.head}).accumulate);

  REQUIRE(all_are(gradients.sum(p.down), kOld));
  gradients.finish();
  REQUIRE(all_are(gradients.sum(p.down), 0));
  REQUIRE(all_are(first.dw.sum, kOld));

  gradients.begin(32, {10, 2});
  REQUIRE_FALSE(gradients.product({}, {}, {}, {p.q, p.k, p.v}).accumulate);
}

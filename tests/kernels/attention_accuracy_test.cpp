#include "src/engine/torch/operators.h"
#include "tests/kernels/attention_support.h"
#include "tests/kernels/oracle.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;
using aten::Precision;

namespace {

std::vector<float> values(const Guarded<float>& x) {
  const std::string bytes = x.bytes();
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

struct Case {
  int64_t tokens, position, heads, group, size;
  double scale;  // of queries and keys: large ones make sharp softmaxes
};

}  // namespace

// Tens of rows at least: the errors of a few sharp rows are too few to compare.
TEST_CASE("attention and its gradients against float64") {
  Random random(7);
  for (const auto& c : {Case{300, 0, 4, 2, 64, 1},
                        {65, 0, 14, 7, 64, 1},
                        {700, 0, 1, 1, 24, 1},
                        {130, 0, 2, 1, 128, 3},
                        {40, 1100, 2, 2, 48, 1},
                        {20, 600, 4, 4, 36, 2},
                        {200, 0, 3, 3, 7, 4},
                        {33, 0, 2, 2, 256, 0.01}}) {
    CAPTURE(c.tokens, c.position, c.heads, c.group, c.size, c.scale);
    AttentionBatch batch({.lengths = {c.tokens},
                          .heads = c.heads,
                          .group = c.group,
                          .size = c.size,
                          .position = c.position});
    batch.q.fill_normal(random, c.scale);
    batch.k.fill_normal(random, c.scale);
    batch.v.fill_normal(random);
    batch.dout.fill_normal(random);
    batch.forward(cpu_kernels(), *pools()[1]);
    batch.backward(cpu_kernels(), *pools()[1]);

    const std::vector<int64_t> queries = {c.tokens, c.heads, c.size};
    const std::vector<int64_t> keys = {batch.keys, batch.kv_heads, c.size};
    const auto oracle = [&](Precision precision) {
      return aten::attention(array(queries, values(batch.q)), array(keys, values(batch.k)),
                             array(keys, values(batch.v)), array(queries, values(batch.dout)),
                             c.position, precision);
    };
    const auto want = oracle(Precision::kFloat64), stock = oracle(Precision::kFloat32);
    require_accurate(values(batch.out), want.out, stock.out);
    require_accurate(values(batch.lse), want.lse, stock.lse);
    require_accurate(values(batch.dq), want.dq, stock.dq);
    require_accurate(values(batch.dk), want.dk, stock.dk);
    require_accurate(values(batch.dv), want.dv, stock.dv);
  }
}

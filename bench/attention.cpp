#include <memory>
#include <utility>

#include "bench/bench.h"
#include "src/engine/torch/operator_benches.h"

namespace rlreplay::bench {
namespace {

using kernels::Heads;

struct Shape {
  std::string name;
  aten::AttentionBench batch;
};

const Shape kTraining[] = {
    {"T=512 H=14 G=2 D=64", {{512}, 14, 2, 64}},
    {"T=2048 H=14 G=2 D=64", {{2048}, 14, 2, 64}},
    {"T=1024 H=16 G=8 D=128", {{1024}, 16, 8, 128}},
    {"T=1024 H=8 G=8 D=64", {{1024}, 8, 8, 64}},
    {"B=8 T=128..700 H=14 G=2 D=64", {{128, 700, 200, 610, 290, 530, 370, 450}, 14, 2, 64}}};

struct Decode {
  int64_t batch, keys, heads, kv_heads, size;
};

constexpr Decode kDecode[] = {
    {8, 1024, 14, 2, 64}, {1, 8192, 14, 2, 64}, {8, 1024, 16, 8, 128}, {32, 512, 14, 2, 64}};

// A batch whose samples lie one after the other. `queries` of each are its last positions.
struct Batch {
  Batch(const aten::AttentionBench& shape, int64_t queries_of_each) {
    int64_t keys = 0, tokens = 0;
    for (const int64_t n : shape.lengths) {
      keys += n;
      tokens += queries_of_each == 0 ? n : queries_of_each;
    }
    const int64_t row = shape.heads * shape.size, kv_row = shape.kv_heads * shape.size;
    q = numbers(tokens * row, 1);
    dout = numbers(tokens * row, 2);
    k = numbers(keys * kv_row, 3);
    v = numbers(keys * kv_row, 4);
    for (auto* x : {&out, &dq}) x->resize(static_cast<size_t>(tokens * row));
    for (auto* x : {&dk, &dv}) x->resize(static_cast<size_t>(keys * kv_row));
    for (auto* x : {&lse, &delta}) x->resize(static_cast<size_t>(tokens * shape.heads));

    const auto query_heads = [&](Buffer<float>& x) {
      return Heads<float>(x.data(), tokens, shape.heads, shape.size);
    };
    const auto key_heads = [&](Buffer<float>& x, int64_t first, int64_t count) {
      return Heads<float>(x.data() + first * kv_row, count, shape.kv_heads, shape.size);
    };
    int64_t key = 0, token = 0;
    for (const int64_t n : shape.lengths) {
      const int64_t count = queries_of_each == 0 ? n : queries_of_each;
      samples.push_back(
          {{token, token + count}, n - count, key_heads(k, key, n), key_heads(v, key, n)});
      const auto& s = samples.back();
      backward_samples.push_back({s.queries, s.position, s.k, s.v, {0, n}, key});
      token += count;
      key += n;
    }
    const kernels::HeadGroups groups{0, shape.heads / shape.kv_heads};
    forward = {samples, groups, query_heads(q), query_heads(out), lse.data()};
    products = {query_heads(dout), query_heads(out), delta.data()};
    backward = {backward_samples,
                groups,
                query_heads(q),
                query_heads(dout),
                lse.data(),
                delta.data(),
                query_heads(dq),
                key_heads(dk, 0, keys),
                key_heads(dv, 0, keys)};
  }

  Buffer<float> q, k, v, dout, out, dq, dk, dv, lse, delta;
  std::vector<kernels::AttentionSample> samples;
  std::vector<kernels::AttentionBackwardSample> backward_samples;
  kernels::Attention forward;
  kernels::AttentionDelta products;
  kernels::AttentionBackward backward;
};

std::function<void()> forward(const aten::AttentionBench& shape, int64_t queries_of_each,
                              const Context& context) {
  return [batch = std::make_shared<Batch>(shape, queries_of_each), &context] {
    context.kernels.attention(batch->forward, context.pool);
  };
}

std::function<void()> training(const aten::AttentionBench& shape, const Context& context) {
  return [batch = std::make_shared<Batch>(shape, 0), &context] {
    context.kernels.attention(batch->forward, context.pool);
    context.kernels.attention_delta(batch->products, context.pool);
    context.kernels.attention_backward(batch->backward, context.pool);
  };
}

// Operations of one product over the pairs of a query and a key that it sees.
double product_work(const aten::AttentionBench& shape) {
  double pairs = 0;
  for (const int64_t n : shape.lengths) pairs += static_cast<double>(n * (n + 1) / 2);
  return 2 * pairs * static_cast<double>(shape.heads * shape.size);
}

}  // namespace

void add_attention(std::vector<Item>& items) {
  for (const auto& shape : kTraining) {
    items.push_back({"attention " + shape.name + " forward", Unit::kGflops,
                     2 * product_work(shape.batch), [&shape](const Context& context) {
                       return Sides{forward(shape.batch, 0, context),
                                    aten::attention_forward_bench(shape.batch)};
                     }});
    items.push_back({"attention " + shape.name + " forward+backward", Unit::kGflops,
                     7 * product_work(shape.batch), [&shape](const Context& context) {
                       return Sides{training(shape.batch, context),
                                    aten::attention_training_bench(shape.batch)};
                     }});
  }
  for (const auto& s : kDecode) {
    const double bytes = 2.0 * sizeof(float) * static_cast<double>(s.batch * s.keys) *
                         static_cast<double>(s.kv_heads * s.size);
    items.push_back(
        {"attention decode B=" + std::to_string(s.batch) + " keys=" + std::to_string(s.keys) +
             " H=" + std::to_string(s.heads) + " G=" + std::to_string(s.kv_heads) +
             " D=" + std::to_string(s.size),
         Unit::kGbytes, bytes, [s](const Context& context) {
           const std::vector<int64_t> lengths(static_cast<size_t>(s.batch), s.keys);
           return Sides{forward({lengths, s.heads, s.kv_heads, s.size}, 1, context),
                        aten::attention_decode_bench(s.batch, s.keys, s.heads, s.kv_heads, s.size)};
         }});
  }
}

}  // namespace rlreplay::bench

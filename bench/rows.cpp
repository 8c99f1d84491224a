#include <algorithm>
#include <memory>
#include <utility>

#include "bench/bench.h"
#include "src/engine/torch/operator_benches.h"

namespace rlreplay::bench {
namespace {

using kernels::Heads;
using kernels::Matrix;
using kernels::Range;

template <class Data, class Run>
std::function<void()> closure(std::shared_ptr<Data> data, Run run) {
  return [data, run] { run(*data); };
}

Buffer<float> zeros(int64_t n) {
  Buffer<float> out(static_cast<size_t>(n));
  std::fill_n(out.data(), out.size(), 0.0f);
  return out;
}

// Memory that an operation reads or writes once, in bytes.
double floats(double count) { return count * sizeof(float); }

// ---- norms, rotary, SwiGLU: one or several heads of n elements a token

struct Rows {
  Rows(int64_t t, int64_t h, int64_t d)
      : tokens(t),
        heads(h),
        dim(d),
        x(numbers(t * h * d, 1)),
        dy(numbers(t * h * d, 2)),
        w(numbers(d, 3)),
        out(zeros(t * h * d)),
        other(zeros(t * h * d)),
        r(numbers(t * h, 4)),
        sum(static_cast<size_t>(d)) {
    std::fill_n(sum.data(), sum.size(), 0);
    for (int64_t i = 0; i < t; ++i) positions.push_back(static_cast<int32_t>(i));
  }
  Heads<const float> in(const Buffer<float>& b) const { return {b.data(), tokens, heads, dim}; }
  Heads<float> to(Buffer<float>& b) const { return {b.data(), tokens, heads, dim}; }
  Matrix<const float> matrix(const Buffer<float>& b) const {
    return {b.data(), tokens, heads * dim};
  }
  Matrix<float> matrix(Buffer<float>& b) const { return {b.data(), tokens, heads * dim}; }

  int64_t tokens, heads, dim;
  Buffer<float> x, dy, w, out, other, r;
  Buffer<int64_t> sum;
  std::vector<int32_t> positions;
  kernels::Rejected rejected;
};

template <class Run>
std::function<void()> rows(int64_t tokens, int64_t heads, int64_t dim, Run run) {
  return closure(std::make_shared<Rows>(tokens, heads, dim), run);
}

void add_norm(std::vector<Item>& items, int64_t tokens, int64_t heads, int64_t dim) {
  const std::string shape =
      " T=" + std::to_string(tokens) + " H=" + std::to_string(heads) + " n=" + std::to_string(dim);
  const auto size = static_cast<double>(tokens * heads * dim);
  items.push_back(
      {"rms_norm" + shape, Unit::kGbytes, floats(2 * size), [=](const Context& c) {
         return Sides{rows(tokens, heads, dim,
                           [&c](Rows& d) {
                             c.kernels.rms_norm(
                                 {d.in(d.x), d.w.data(), 1e-6f, d.to(d.out), d.r.data()}, c.pool);
                           }),
                      aten::rms_norm_bench(tokens * heads, dim)};
       }});
  items.push_back(
      {"rms_norm_backward" + shape, Unit::kGbytes, floats(3 * size), [=](const Context& c) {
         const auto run = [&c](Rows& d) {
           c.kernels.rms_norm_backward(
               {.x = d.in(d.x),
                .w = d.w.data(),
                .r = d.r.data(),
                .dy = d.in(d.dy),
                .residual = {},
                .dx = d.to(d.out),
                .dw = {{d.sum.data(), 1, d.dim}, 40, d.tokens * d.heads, &d.rejected}},
               c.pool);
         };
         return Sides{rows(tokens, heads, dim, run),
                      aten::rms_norm_backward_bench(tokens * heads, dim)};
       }});
}

void add_rotary(std::vector<Item>& items, int64_t tokens, int64_t heads, int64_t dim) {
  const auto size = static_cast<double>(tokens * heads * dim);
  items.push_back(
      {"rotary T=" + std::to_string(tokens) + " H=" + std::to_string(heads) +
           " D=" + std::to_string(dim),
       Unit::kGbytes, floats(2 * size), [=](const Context& c) {
         const auto run = [&c](Rows& d) {
           const Matrix<const float> table(d.other.data(), d.tokens, d.dim / 2);
           c.kernels.rotary({d.in(d.x), d.positions.data(), table, table, false, d.to(d.out)},
                            c.pool);
         };
         return Sides{rows(tokens, heads, dim, run), aten::rotary_bench(tokens, heads, dim)};
       }});
}

void add_swiglu(std::vector<Item>& items, int64_t tokens, int64_t cols) {
  const std::string shape = " T=" + std::to_string(tokens) + " F=" + std::to_string(cols);
  const auto size = static_cast<double>(tokens * cols);
  items.push_back({"swiglu" + shape, Unit::kGbytes, floats(3 * size), [=](const Context& c) {
                     const auto run = [&c](Rows& d) {
                       c.kernels.swiglu({d.matrix(std::as_const(d.x)),
                                         d.matrix(std::as_const(d.dy)), d.matrix(d.out)},
                                        c.pool);
                     };
                     return Sides{rows(tokens, 1, cols, run), aten::swiglu_bench(tokens, cols)};
                   }});
  items.push_back(
      {"swiglu_backward" + shape, Unit::kGbytes, floats(5 * size), [=](const Context& c) {
         const auto run = [&c](Rows& d) {
           const auto up = d.matrix(std::as_const(d.dy));
           c.kernels.swiglu_backward(
               {d.matrix(std::as_const(d.x)), up, up, d.matrix(d.out), d.matrix(d.other)}, c.pool);
         };
         return Sides{rows(tokens, 1, cols, run), aten::swiglu_backward_bench(tokens, cols)};
       }});
}

// ---- sums over tokens

struct Scatter {
  Scatter(int64_t t, int64_t c, int64_t n)
      : dx(numbers(t * c, 1)), sum(static_cast<size_t>(n * c)) {
    std::fill_n(sum.data(), sum.size(), 0);
    const auto picks = numbers(t, 2);
    for (const float* p = picks.data(); p != picks.data() + t; ++p) {
      ids.push_back(static_cast<int32_t>((*p + 1) / 2 * static_cast<float>(n - 1)));
    }
    op = {{dx.data(), t, c}, ids.data(), 0, {{sum.data(), n, c}, 40, t, &rejected}};
  }

  Buffer<float> dx;
  Buffer<int64_t> sum;
  std::vector<int32_t> ids;
  kernels::Rejected rejected;
  kernels::EmbeddingTokens op;
};

void add_embedding(std::vector<Item>& items, int64_t tokens, int64_t cols, int64_t ids) {
  // A float read, an integer read and written.
  const auto bytes = static_cast<double>(tokens * cols) * 20;
  items.push_back({"embedding_tokens T=" + std::to_string(tokens) + " C=" + std::to_string(cols) +
                       " V=" + std::to_string(ids),
                   Unit::kGbytes, bytes, [=](const Context& c) {
                     return Sides{
                         closure(std::make_shared<Scatter>(tokens, cols, ids),
                                 [&c](Scatter& d) { c.kernels.embedding_tokens(d.op, c.pool); }),
                         aten::embedding_backward_bench(tokens, cols, ids)};
                   }});
}

// ---- the vocabulary

struct Vocab {
  Vocab(int64_t t, int64_t v)
      : rows(t),
        cols(v),
        logits(numbers(t * v, 1)),
        dlogits(zeros(t * v)),
        max(zeros(t)),
        sum(zeros(t)),
        log_sum(zeros(t)),
        log_prob(zeros(t)),
        entropy(zeros(t)),
        c(numbers(t, 2)),
        ce(numbers(t, 3)),
        z(zeros(8 * t)),
        e(zeros(8 * t)),
        labels(static_cast<size_t>(t), 17) {
    for (int64_t s = 0; s < 8; ++s) segments.push_back(kernels::segment(v, 8, s));
  }

  void forward(const Context& context) {
    const auto& k = context.kernels;
    k.vocab_max({{logits.data(), rows, cols}, 1, max.data()}, context.pool);
    k.vocab_sums({{logits.data(), rows, cols},
                  max.data(),
                  segments,
                  {z.data(), rows, 8},
                  {e.data(), rows, 8}},
                 context.pool);
    k.log_prob({{z.data(), rows, 8},
                {e.data(), rows, 8},
                max.data(),
                max.data(),
                sum.data(),
                log_sum.data(),
                log_prob.data(),
                entropy.data()},
               context.pool);
  }
  void backward(const Context& context) {
    context.kernels.log_prob_backward({.logits = {logits.data(), rows, cols},
                                       .max = max.data(),
                                       .sum = sum.data(),
                                       .log_sum = log_sum.data(),
                                       .entropy = entropy.data(),
                                       .labels = labels.data(),
                                       .c = c.data(),
                                       .ce = ce.data(),
                                       .temperature = 1,
                                       .dlogits = {dlogits.data(), rows, cols}},
                                      context.pool);
  }

  int64_t rows, cols;
  Buffer<float> logits, dlogits, max, sum, log_sum, log_prob, entropy, c, ce, z, e;
  std::vector<int32_t> labels;
  std::vector<Range> segments;
};

void add_vocab(std::vector<Item>& items, int64_t tokens, int64_t cols) {
  const std::string shape = " T=" + std::to_string(tokens) + " V=" + std::to_string(cols);
  const auto size = static_cast<double>(tokens * cols);
  // The maximum and the sums read the logits once each.
  items.push_back({"log_prob" + shape, Unit::kGbytes, floats(2 * size), [=](const Context& c) {
                     return Sides{closure(std::make_shared<Vocab>(tokens, cols),
                                          [&c](Vocab& d) { d.forward(c); }),
                                  aten::log_prob_bench(tokens, cols)};
                   }});
  items.push_back(
      {"log_prob_backward" + shape, Unit::kGbytes, floats(2 * size), [=](const Context& c) {
         const auto data = std::make_shared<Vocab>(tokens, cols);
         data->forward(c);
         return Sides{closure(data, [&c](Vocab& d) { d.backward(c); }),
                      aten::log_prob_backward_bench(tokens, cols)};
       }});
}

// ---- the optimizer

struct Parameters {
  explicit Parameters(int64_t n)
      : m(zeros(n)), v(zeros(n)), w(numbers(n, 1)), sum(static_cast<size_t>(n)) {
    const auto g = numbers(n, 2);
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = static_cast<int64_t>(static_cast<double>(g[i]) * 0x1p40);
    }
  }

  Buffer<float> m, v, w;
  Buffer<int64_t> sum;
};

void add_optimizer(std::vector<Item>& items, int64_t n) {
  const std::string shape = " n=" + std::to_string(n);
  const auto count = static_cast<size_t>(n);
  // The integer gradient, and m, v, w read and written.
  items.push_back(
      {"adamw" + shape, Unit::kGbytes, 32.0 * static_cast<double>(n), [=](const Context& c) {
         const auto step = kernels::adamw_step({.rate = 1e-6, .weight_decay = 0.1}, 10);
         const auto run = [&c, step, count](Parameters& d) {
           c.kernels.adamw({.sum = {d.sum.data(), count},
                            .scale = 46,
                            .clip = 0.5f,
                            .step = step,
                            .m = {d.m.data(), count},
                            .v = {d.v.data(), count},
                            .w = {d.w.data(), count}},
                           c.pool);
         };
         return Sides{closure(std::make_shared<Parameters>(n), run), aten::adamw_bench(n)};
       }});
  items.push_back(
      {"sum_squares" + shape, Unit::kGbytes, 8.0 * static_cast<double>(n), [=](const Context& c) {
         const auto run = [&c, count](Parameters& d) {
           kernels::SquareSum sum = {};
           c.kernels.sum_squares({{d.sum.data(), count}, &sum}, c.pool);
         };
         return Sides{closure(std::make_shared<Parameters>(n), run), aten::norm_bench(n)};
       }});
}

}  // namespace

void add_rows(std::vector<Item>& items) {
  add_norm(items, 512, 1, 896);
  add_norm(items, 512, 14, 64);
  add_norm(items, 4096, 1, 4096);
  add_rotary(items, 512, 14, 64);
  add_rotary(items, 4096, 32, 128);
  add_swiglu(items, 512, 4864);
  add_embedding(items, 512, 896, 151936);
  add_vocab(items, 64, 151936);
  add_vocab(items, 1, 151936);
  add_optimizer(items, 16 << 20);
}

}  // namespace rlreplay::bench

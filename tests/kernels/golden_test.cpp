#include "tests/golden.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "src/base/hash.h"
#include "src/base/thread_pool.h"
#include "tests/kernels/support.h"

// Rules that are changed everywhere alike (the length of a leaf, the lanes of a row, a coefficient)
// pass every comparison of one kernel set with another. The recorded hashes catch them.
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

using Values = std::vector<float>;

constexpr int64_t T = 1100, C = 600, H = 4, G = 2, D = 40, V = 1043;
constexpr int kScale = 40;

float ordinary(Random& random) { return static_cast<float>(random.normal()); }

/// Half of them where kernels part: zeros of both signs, subnormal numbers and their borders,
/// halves of an ulp above and below 1, values that occur again and tie. None is huge: one token
/// would be left to draw.
float hard(Random& random) {
  constexpr float kHard[] = {
      0.0f,           -0.0f,        0x1p-149f, -0x1p-149f,     0x1.fffffcp-127f,
      0x1p-126f,      -0x1p-126f,   0x1p-75f,  0x1p-24f,       0x1.000002p0f,
      0x1.fffffep-1f, 1.0f,         -1.0f,     0x1.8p0f,       -0x1.8p0f,
      0x1p-12f,       0x1.002p-12f, 2.0f,      -0x1.000002p1f, 3.0f};
  const bool odd = random.below(2) == 0;
  return odd ? kHard[random.below(std::size(kHard))] : ordinary(random);
}

/// A few infinities and NaNs among hard ones: so few that rows of results without them are left.
float not_finite(Random& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kOdd[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  const bool odd = random.below(2000) == 0;
  return odd ? kOdd[random.below(std::size(kOdd))] : hard(random);
}

/// With one NaN for all: which elements are NaN is in the contract, and their bits are not.
template <class T>
std::vector<T> comparable(std::vector<T> values) {
  for (T& x : values) {
    if (x != x) x = std::numeric_limits<T>::quiet_NaN();
  }
  return values;
}

/// What one kernel set gives on inputs of one kind, by name of the output.
class Outputs {
 public:
  using Input = float (*)(Random&);

  Outputs(const KernelSet& set, rlreplay::ThreadPool& pool, std::string prefix, Input input)
      : set_(set), pool_(pool), prefix_(std::move(prefix)), input_(input) {
    products();
    rows();
    attend();
    vocabulary();
    optimizer();
  }
  const rlreplay::GoldenEntries& hashes() const { return hashes_; }

 private:
  template <class T>
  void record(const std::string& name, const std::vector<T>& values) {
    const std::vector<T> kept = comparable(values);
    hashes_[prefix_ + name] = rlreplay::hash_of(std::as_bytes(std::span(kept))).hex();
  }
  TokenSum token_sum(std::vector<int64_t>& sum, int64_t rows, int64_t cols) {
    return {{sum.data(), rows, cols}, kScale, T, &rejected_};
  }

  Values inputs(uint64_t seed, int64_t n, float scale = 1) {
    Random random(seed);
    Values out(static_cast<size_t>(n));
    for (float& x : out) x = scale * input_(random);
    return out;
  }

  void products() {
    const int64_t M = 37, N = 53;
    const Values x = inputs(1, M * C), w = inputs(2, N * C), bias = inputs(3, N);
    const std::vector<Matrix<const float>> parts{{w.data(), N, C}};
    for (const int64_t segments : {1, 8}) {
      PackedWeight packed;
      set_.pack_weight({parts, Inner::kColumns}, packed, pool_);
      const DotOrder order = dot_order(C, segments);
      Values y(static_cast<size_t>(M * N));
      set_.matmul({{x.data(), M, C}, &packed, &order, bias.data(), {}, {y.data(), M, N}}, pool_);
      record("matmul T=" + std::to_string(segments), y);
    }
    const Values dy = inputs(4, T * 20), rows = inputs(5, T * 33);
    std::vector<int64_t> dw(20 * 33);
    std::vector<Range> leaves;
    append_token_leaves(0, T, kTokenLeaf, leaves);
    set_.matmul_tokens({{dy.data(), T, 20}, {rows.data(), T, 33}, leaves, token_sum(dw, 20, 33)},
                       pool_);
    record("matmul_tokens", dw);
  }

  void rows() {
    const int64_t n = 2500, M = 9;
    const Values x = inputs(6, M * n), w = inputs(7, n), dy = inputs(8, M * n);
    Values y(x.size()), r(M), dx(x.size());
    const Matrix<const float> in{x.data(), M, n}, grad{dy.data(), M, n};
    set_.rms_norm({in, w.data(), 1e-6f, Matrix<float>(y.data(), M, n), r.data()}, pool_);
    record("rms_norm y", y);
    record("rms_norm r", r);
    std::vector<int64_t> dw(static_cast<size_t>(n)), db(dw.size());
    RmsNormBackward back;
    back.x = in;
    back.w = w.data();
    back.r = r.data();
    back.dy = grad;
    back.dx = Matrix<float>(dx.data(), M, n);
    back.dw = token_sum(dw, 1, n);
    set_.rms_norm_backward(back, pool_);
    record("rms_norm_backward dx", dx);
    record("rms_norm_backward dw", dw);
    set_.bias_tokens({grad, nullptr, token_sum(db, 1, n)}, pool_);
    record("bias_tokens", db);

    set_.swiglu({in, grad, {y.data(), M, n}}, pool_);
    record("swiglu", y);
    Values dgate(x.size()), dup(x.size());
    set_.swiglu_backward({in, grad, in, {dgate.data(), M, n}, {dup.data(), M, n}}, pool_);
    record("swiglu_backward dgate", dgate);
    record("swiglu_backward dup", dup);

    const Values cos = inputs(9, 16 * D / 2), sin = inputs(10, 16 * D / 2);
    const std::vector<int32_t> positions{0, 3, 15, 7};
    Values turned(static_cast<size_t>(4 * H * D));
    set_.rotary({Heads<const float>(x.data(), 4, H, D),
                 positions.data(),
                 {cos.data(), 16, D / 2},
                 {sin.data(), 16, D / 2},
                 false,
                 Heads<float>(turned.data(), 4, H, D)},
                pool_);
    record("rotary", turned);

    const std::vector<int32_t> ids{2, 0, 2, 1, -1, 2, 0, 4, 1};
    std::vector<int64_t> table(static_cast<size_t>(5 * n));
    set_.embedding_tokens({grad, ids.data(), 0, token_sum(table, 5, n)}, pool_);
    record("embedding_tokens", table);
  }

  void attend() {
    const auto size = [](int64_t heads) { return static_cast<size_t>(T * heads * D); };
    const Values q = inputs(11, T * H * D), k = inputs(12, T * G * D), v = inputs(13, T * G * D);
    const Values dout = inputs(14, T * H * D);
    Values out(size(H)), lse(T * H), delta(T * H), dq(size(H)), dk(size(G)), dv(size(G));
    const Heads<const float> keys{k.data(), T, G, D}, values{v.data(), T, G, D};
    const Heads<const float> queries{q.data(), T, H, D}, grad{dout.data(), T, H, D};
    const HeadGroups groups{0, H / G};
    const std::vector<AttentionSample> samples{{{0, T}, 0, keys, values}};
    set_.attention({samples, groups, queries, {out.data(), T, H, D}, lse.data()}, pool_);
    record("attention out", out);
    record("attention lse", lse);
    set_.attention_delta({grad, Heads<const float>(out.data(), T, H, D), delta.data()}, pool_);
    record("attention_delta", delta);
    const std::vector<AttentionBackwardSample> backward{{{0, T}, 0, keys, values, {0, T}, 0}};
    set_.attention_backward({backward,
                             groups,
                             queries,
                             grad,
                             lse.data(),
                             delta.data(),
                             {dq.data(), T, H, D},
                             {dk.data(), T, G, D},
                             {dv.data(), T, G, D}},
                            pool_);
    record("attention_backward dq", dq);
    record("attention_backward dk", dk);
    record("attention_backward dv", dv);
  }

  void vocabulary() {
    const int64_t M = 6, segments = 8;
    Values logits = inputs(15, M * V, 3);
    Values max(M), z(M * segments), e(M * segments), label(M), sum(M), log_sum(M), log_prob(M),
        entropy(M);
    if (input_ == not_finite) {  // of the few, none but -infinity fell on these
      logits[V + 5] = std::numeric_limits<float>::infinity();
      logits[2 * V + 9] = std::numeric_limits<float>::quiet_NaN();
    }
    const Matrix<float> l{logits.data(), M, V};
    set_.vocab_max({l, 0.7f, max.data()}, pool_);
    record("vocab_max logits", logits);
    std::vector<Range> ranges;
    for (int64_t s = 0; s < segments; ++s) ranges.push_back(segment(V, segments, s));
    const Matrix<float> zs{z.data(), M, segments}, es{e.data(), M, segments};
    set_.vocab_sums({l, max.data(), ranges, zs, es}, pool_);
    record("vocab_sums z", z);
    record("vocab_sums e", e);
    const std::vector<int32_t> labels{0, 1042, 7, 500, 3, 999};
    for (int64_t i = 0; i < M; ++i)
      label[static_cast<size_t>(i)] = l(i, labels[static_cast<size_t>(i)]);
    set_.log_prob({zs, es, max.data(), label.data(), sum.data(), log_sum.data(), log_prob.data(),
                   entropy.data()},
                  pool_);
    record("log_prob log_prob", log_prob);
    record("log_prob entropy", entropy);

    std::vector<Draw> draws;
    for (uint64_t i = 0; i < 6; ++i) draws.push_back({i << 33 | i, static_cast<uint32_t>(10 * i)});
    std::vector<int32_t> ids(6);
    for (const int64_t top_k : {0, 50}) {
      DrawTokens op;
      op.logits = l;
      op.max = max.data();
      op.sum = sum.data();
      op.draws = draws;
      op.seed = 42;
      op.top_k = top_k;
      op.top_p = top_k == 0 ? 1.0 : 0.9;
      op.ids = ids.data();
      set_.draw_tokens(op, pool_);
      for (int64_t row = 0; row < M; ++row) {
        const std::span<const float> of(&l(row, 0), V);
        const bool promised = std::ranges::none_of(of, [](float x) { return std::isnan(x); });
        if (!promised) ids[static_cast<size_t>(row)] = -1;  // see DrawTokens
      }
      record("sample top_k=" + std::to_string(top_k), ids);
    }
    const Values c = inputs(16, M), ce = inputs(17, M);
    set_.log_prob_backward({l, max.data(), sum.data(), log_sum.data(), entropy.data(),
                            labels.data(), c.data(), ce.data(), 0.7f, l},
                           pool_);
    record("log_prob_backward", logits);
  }

  void optimizer() {
    const size_t n = 777;
    Random random(18);
    std::vector<int64_t> sums(n);
    for (int64_t& s : sums) s = static_cast<int64_t>(random.bits()) >> random.below(40);
    SquareSum squares{};
    set_.sum_squares({sums, &squares}, pool_);
    record("sum_squares norm", std::vector<double>{norm(squares, kScale)});
    Values m = inputs(19, n), v = inputs(20, n), w = inputs(21, n), grad(n);
    for (float& x : v) x = x * x;
    set_.token_gradient({sums, kScale, grad}, pool_);
    record("token_gradient", grad);
    set_.adamw({sums, kScale, 0.3f, adamw_step({1e-3, 0.9, 0.95, 1e-8, 0.1}, 3), m, v, w}, pool_);
    record("adamw m", m);
    record("adamw v", v);
    record("adamw w", w);
  }

  const KernelSet& set_;
  rlreplay::ThreadPool& pool_;
  std::string prefix_;
  Input input_;
  Rejected rejected_;
  rlreplay::GoldenEntries hashes_;
};

}  // namespace

TEST_CASE("every operation gives the recorded bits") {
  rlreplay::ThreadPool pool(2);
  std::vector<KernelSet> sets = cpu_kernel_sets();
  sets.push_back(reference_kernels());
  for (const KernelSet& set : sets) {
    CAPTURE(set.name);
    rlreplay::GoldenEntries hashes = Outputs(set, pool, "", ordinary).hashes();
    const Outputs odd(set, pool, "hard ", hard), none(set, pool, "not finite ", not_finite);
    hashes.insert(odd.hashes().begin(), odd.hashes().end());
    hashes.insert(none.hashes().begin(), none.hashes().end());
    rlreplay::test::check_golden(RLREPLAY_GOLDEN "/kernels.txt", hashes);
  }
}

#include <catch2/catch.hpp>
#include <cmath>

#include "src/base/error.h"
#include "tests/engine/broken_group.h"
#include "tests/engine/layout_run.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

/// Each rule by which ranks sum, broken on purpose: a named layout must see it, and where the rule
/// does not apply nothing may change.
namespace {

using kernels::KernelSet;
using kernels::Matrix;

const std::vector<int64_t> kLengths{37, 150, 5, 65, 130};

struct Subject {
  ModelConfig config;
  Batch batch;

  explicit Subject(const ModelConfig& c) : config(c), batch(random_batch(c, kLengths, 3)) {}

  LayoutRun run(const char* layout, const KernelSet& set = kernels::cpu_kernels(),
                const RunRanks& ranks = {}) const {
    LayoutTask task(config, batch);
    task.step.train.leaf = 64;
    task.step.lr = 1e-3;
    task.step.micro_batch_size = 2;
    task.steps = 1;
    task.kernels = &set;
    task.run = ranks;
    return run_layout(task, parse_layout(layout));
  }
};

/// The other stage's part of a tied embedding counts twice.
class CountedTwice : public SameGroup {
 public:
  using SameGroup::SameGroup;
  void receive(int from, std::span<std::byte> bytes) override {
    inner_.receive(from, bytes);
    constexpr size_t kEmbedding = 643 * 88 * sizeof(int64_t);  // no activation has this size
    if (bytes.size() != kEmbedding) return;
    const std::span sums(reinterpret_cast<int64_t*>(bytes.data()), 643 * 88);
    for (int64_t& v : sums) v = kernels::add_wrapping(v, v);
  }
};

/// Ranks come in another order than they are.
class Swapped : public SameGroup {
 public:
  using SameGroup::SameGroup;
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    inner_.gather(own, all);
    const size_t n = own.size();
    for (size_t i = 0; i < n && size() > 1; ++i) std::swap(all[i], all[n + i]);
  }
};

/// Sums that travel as binary32.
class RoundedParts : public SameGroup {
 public:
  using SameGroup::SameGroup;
  void receive(int from, std::span<std::byte> bytes) override {
    inner_.receive(from, bytes);
    const std::span sums(reinterpret_cast<int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t));
    for (int64_t& v : sums) v = static_cast<int64_t>(static_cast<float>(v));
  }
};

/// Each rank has what it had: squares of its own part are taken for those of all.
class OwnSums : public SameGroup {
 public:
  using SameGroup::SameGroup;
  void sum(std::span<int64_t> values) override {
    std::vector<int64_t> summed(values.begin(), values.end());
    inner_.sum(summed);
  }
};

template <class Broken>
RunRanks broken_tp() {
  return [](const Layout& layout, const std::function<void(const Ranks&)>& work) {
    run_thread_ranks(layout, [&](const Ranks& r) {
      Broken tp(r.tp);
      work({r.layout, r.place, r.world, r.dp, tp, r.pp, r.cp});
    });
  };
}

template <class Broken>
RunRanks broken_pp() {
  return [](const Layout& layout, const std::function<void(const Ranks&)>& work) {
    run_thread_ranks(layout, [&](const Ranks& r) {
      Broken pp(r.pp);
      work({r.layout, r.place, r.world, r.dp, r.tp, pp, r.cp});
    });
  };
}

/// sum = a + b, of equal shapes.
void add(Matrix<const float> a, Matrix<const float> b, Matrix<float> sum) {
  for (int64_t t = 0; t < sum.rows; ++t) {
    for (int64_t i = 0; i < sum.cols; ++i) sum(t, i) = a(t, i) + b(t, i);
  }
}

/// A ring's order: left to right, not the tree.
void ring(const kernels::CombineSegments& op, ThreadPool& pool) {
  const auto& set = kernels::cpu_kernels();
  Buffer<float> so_far(static_cast<size_t>(op.y.rows * op.y.cols));
  const Matrix<float> sum{so_far.data(), op.y.rows, op.y.cols};
  set.combine_segments({op.parts.first(1), nullptr, {}, sum}, pool);
  for (size_t i = 1; i < op.parts.size(); ++i) add(sum, op.parts[i], sum);
  set.combine_segments({std::vector{Matrix<const float>(sum)}, op.bias, op.residual, op.y}, pool);
}

/// The residual on the first rank, before the tree: what "add it where it lies" does.
void residual_first(const kernels::CombineSegments& op, ThreadPool& pool) {
  const auto& set = kernels::cpu_kernels();
  if (op.residual.data == nullptr) return set.combine_segments(op, pool);
  Buffer<float> first(static_cast<size_t>(op.y.rows * op.y.cols));
  const Matrix<float> sum{first.data(), op.y.rows, op.y.cols};
  add(op.parts[0], op.residual, sum);
  std::vector<Matrix<const float>> parts(op.parts.begin(), op.parts.end());
  parts[0] = sum;
  set.combine_segments({parts, op.bias, {}, op.y}, pool);
}

/// Each product's dx is summed for itself: gate before up, not segment by segment.
void unfused(const kernels::Matmul& op, ThreadPool& pool) {
  kernels::Matmul changed = op;
  kernels::DotOrder order;
  const size_t segments = op.order->segments.size();
  const bool fused = op.order->segments.front().size() == 2;
  if (fused) {
    order = kernels::dot_order(op.w->k, static_cast<int64_t>(segments));
    changed.order = &order;
  }
  kernels::cpu_kernels().matmul(changed, pool);
}

/// Keys' gradients of two halves of the queries, added as floats: what ranks do that reduce dk, dv.
void halves(const kernels::AttentionBackward& op, ThreadPool& pool) {
  const auto& set = kernels::cpu_kernels();
  if (op.dk.data == nullptr) return set.attention_backward(op, pool);
  const auto dk = static_cast<size_t>(op.dk.tokens * op.dk.heads * op.dk.dim);
  Buffer<float> room_k(dk), room_v(dk);
  std::fill_n(room_k.data(), dk, 0.0f);
  std::fill_n(room_v.data(), dk, 0.0f);
  std::vector<kernels::AttentionBackwardSample> low(op.samples.begin(), op.samples.end()), high;
  for (auto& s : low) {
    const int64_t middle = std::min(s.queries.size(), int64_t{64});
    kernels::AttentionBackwardSample rest = s;
    rest.queries.begin += middle;
    rest.position += middle;
    if (rest.queries.size() > 0) high.push_back(rest);
    s.queries.end = s.queries.begin + middle;
  }
  kernels::AttentionBackward part = op;
  part.samples = low;
  set.attention_backward(part, pool);
  part.samples = high;
  part.dk = {room_k.data(), op.dk.tokens, op.dk.heads, op.dk.dim};
  part.dv = {room_v.data(), op.dk.tokens, op.dk.heads, op.dk.dim};
  set.attention_backward(part, pool);
  for (int64_t t = 0; t < op.dk.tokens; ++t) {
    for (int64_t i = 0; i < op.dk.heads * op.dk.dim; ++i) {
      op.dk.at(t, 0)[i] += part.dk.at(t, 0)[i];
      op.dv.at(t, 0)[i] += part.dv.at(t, 0)[i];
    }
  }
}

/// Leaves end where a rank's tokens do, here after 40 of 64: what equal chunks of a sample are.
void cut_leaves(const kernels::MatmulTokens& op, ThreadPool& pool) {
  std::vector<kernels::Range> cut;
  for (const kernels::Range& leaf : op.leaves) {
    const int64_t middle = leaf.begin + std::min<int64_t>(leaf.size(), 40);
    cut.push_back({leaf.begin, middle});
    if (middle < leaf.end) cut.push_back({middle, leaf.end});
  }
  kernels::MatmulTokens changed = op;
  changed.leaves = cut;
  kernels::cpu_kernels().matmul_tokens(changed, pool);
}

KernelSet with(auto KernelSet::*kernel, auto function) {
  KernelSet out = kernels::cpu_kernels();
  out.*kernel = function;
  return out;
}

}  // namespace

TEST_CASE("subtrees that are added from left to right are seen with four ranks of tp") {
  const Subject s(odd_model(Architecture::kLlama, false));
  const LayoutRun want = s.run("");
  const KernelSet broken = with(&KernelSet::combine_segments, ring);
  CHECK(difference(want, s.run("tp=2", broken)) == "");
  CHECK(difference(want, s.run("tp=4", broken)) == "scores");
}

TEST_CASE("a residual that is added before the tree is seen with two ranks of tp") {
  const Subject s(small_model(Architecture::kLlama));
  const KernelSet broken = with(&KernelSet::combine_segments, residual_first);
  CHECK(difference(s.run(""), s.run("tp=2", broken)) == "scores");
}

TEST_CASE("parts of ranks in another order are seen with four ranks of tp") {
  const Subject s(odd_model(Architecture::kLlama, false));
  CHECK(difference(s.run(""), s.run("tp=4", kernels::cpu_kernels(), broken_tp<Swapped>())) != "");
}

TEST_CASE("a dx that sums gate before up is seen with two ranks of tp") {
  const Subject s(small_model(Architecture::kLlama));
  const KernelSet broken = with(&KernelSet::matmul, unfused);
  CHECK(difference(s.run(""), s.run("tp=2", broken)) == "gradients");
}

TEST_CASE("gradients that are added as floats are seen with three ranks of dp") {
  const Subject s(small_model(Architecture::kQwen2));
  const auto broken = broken_dp<FloatSums>();
  CHECK(difference(s.run(""), s.run("dp=3", kernels::cpu_kernels(), broken)) == "gradients");
}

TEST_CASE("parts of sums that travel as floats are seen with two ranks of dp and zero") {
  const Subject s(small_model(Architecture::kQwen2));
  const auto broken = broken_dp<RoundedParts>();
  CHECK(difference(s.run(""), s.run("dp=2", kernels::cpu_kernels(), broken)) == "");
  CHECK(difference(s.run(""), s.run("dp=2,zero=1", kernels::cpu_kernels(), broken)) == "gradients");
}

TEST_CASE("a norm of the part that a rank holds is seen with two ranks of dp and zero") {
  const Subject s(small_model(Architecture::kQwen2));
  const auto broken = broken_dp<OwnSums>();
  CHECK(difference(s.run(""), s.run("dp=2,zero=1", kernels::cpu_kernels(), broken)) != "");
}

TEST_CASE("keys' gradients that are added across ranks are seen with two ranks of cp") {
  const Subject s(small_model(Architecture::kQwen3));
  const KernelSet broken = with(&KernelSet::attention_backward, halves);
  CHECK(difference(s.run(""), s.run("cp=2", broken)) == "gradients");
}

TEST_CASE("a sample that is cut inside of a leaf is seen with two ranks of cp") {
  const Subject s(small_model(Architecture::kLlama));
  const KernelSet broken = with(&KernelSet::matmul_tokens, cut_leaves);
  CHECK(difference(s.run(""), s.run("cp=2", broken)) == "gradients");
}

TEST_CASE("a tied tensor that counts twice is seen with two stages of pp") {
  const RunRanks broken = broken_pp<CountedTwice>();
  const Subject tied(odd_model(Architecture::kQwen2, true));
  CHECK(difference(tied.run(""), tied.run("pp=2", kernels::cpu_kernels(), broken)) != "");
}

#include <algorithm>
#include <catch2/catch.hpp>

#include "src/base/error.h"
#include "tests/kernels/attention_support.h"
#include "tests/kernels/sets.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;
using rlreplay::ThreadPool;

namespace {

AttentionBatch filled(const AttentionShape& shape, uint64_t seed = 5) {
  Random random(seed);
  AttentionBatch batch(shape);
  batch.fill([&] { return random.normal(); });
  return batch;
}

AttentionBatch computed(const AttentionShape& shape, const KernelSet& set, ThreadPool& pool) {
  AttentionBatch batch = filled(shape);
  batch.forward(set, pool);
  batch.backward(set, pool);
  return batch;
}

/// Calls test(set, pool) for every SIMD set and for the reference.
template <class Test>
void each_set(Test test) {
  std::vector<const KernelSet*> sets = {&reference_kernels()};
  for (const auto& set : cpu_kernel_sets()) sets.push_back(&set);
  for (const auto* set : sets) {
    CAPTURE(set->name);
    test(*set, *pools()[1]);
  }
}

Heads<const float> rows(Heads<const float> x, int64_t first, int64_t count) {
  return {x.at(first, 0), count, x.heads, x.dim, x.stride};
}
template <class T>
Heads<T> some_heads(Heads<T> x, int64_t first, int64_t count) {
  return {x.at(0, first), x.tokens, count, x.dim, x.stride};
}

/// The forward of one sample in chunks of the given sizes, each seeing only the keys so far.
std::string in_chunks(AttentionBatch& batch, const std::vector<int64_t>& chunks,
                      const KernelSet& set, ThreadPool& pool) {
  batch.out.fill(0);
  const auto whole = batch.samples().front();
  int64_t at = 0;
  for (const int64_t n : chunks) {
    std::vector<AttentionSample> list = {
        {{at, at + n}, at, rows(whole.k, 0, at + n), rows(whole.v, 0, at + n)}};
    set.attention(batch.forward_op(list), pool);
    at += n;
  }
  REQUIRE(at == batch.tokens);
  return batch.forward_bytes();
}

}  // namespace

TEST_CASE("attention: prefill, chunked prefill and one-token decoding give one set of bits") {
  each_set([](const KernelSet& set, ThreadPool& pool) {
    AttentionBatch batch = filled({.lengths = {600}, .heads = 4, .group = 2, .size = 20});
    batch.forward(set, pool);
    const std::string want = batch.forward_bytes();
    REQUIRE((in_chunks(batch, std::vector<int64_t>(600, 1), set, pool) == want));
    REQUIRE((in_chunks(batch, std::vector<int64_t>(60, 10), set, pool) == want));
    REQUIRE((in_chunks(batch, {63, 1, 1, 447, 88}, set, pool) == want));
    REQUIRE((in_chunks(batch, {512, 88}, set, pool) == want));
    REQUIRE((in_chunks(batch, {100, 500}, set, pool) == want));
  });
}

TEST_CASE("attention: a sample's bits do not depend on the batch around it") {
  each_set([](const KernelSet& set, ThreadPool& pool) {
    const AttentionShape all{.lengths = {70, 1, 0, 200, 9}, .heads = 4, .group = 4, .size = 24};
    AttentionBatch batch = computed(all, set, pool);
    const auto samples = batch.samples();
    const auto backward = batch.backward_samples();
    const std::string forward = batch.forward_bytes(), gradients = batch.backward_bytes();
    // Any samples first, the others in a second call, in any order.
    for (const auto& first : std::vector<std::vector<size_t>>{{3}, {4, 0}, {1, 3, 2, 0}, {2}}) {
      for (auto* x : {&batch.out, &batch.lse, &batch.dq, &batch.dk, &batch.dv}) x->fill(9);
      std::vector<AttentionSample> list, others;
      std::vector<AttentionBackwardSample> back, back_others;
      for (const size_t i : first) {
        list.push_back(samples[i]);
        back.push_back(backward[i]);
      }
      for (size_t i = samples.size(); i-- > 0;) {
        if (std::find(first.begin(), first.end(), i) != first.end()) continue;
        others.push_back(samples[i]);
        back_others.push_back(backward[i]);
      }
      set.attention(batch.forward_op(list), pool);
      set.attention(batch.forward_op(others), pool);
      REQUIRE((batch.forward_bytes() == forward));
      set.attention_backward(batch.backward_op(back), pool);
      set.attention_backward(batch.backward_op(back_others), pool);
      REQUIRE((batch.backward_bytes() == gradients));
    }
  });
}

TEST_CASE("attention: context-parallel ranks give the bits of one visit") {
  // Cuts between leaves, dealt in zigzag, and cuts anywhere.
  const std::vector<std::vector<int64_t>> cuts = {
      {0, 192, 384, 576, 700}, {0, 64, 128, 700}, {0, 1, 63, 100, 515, 700, 700}};
  each_set([&](const KernelSet& set, ThreadPool& pool) {
    const AttentionShape shape{.lengths = {700}, .heads = 3, .group = 3, .size = 12};
    AttentionBatch batch = computed(shape, set, pool);
    const std::string forward = batch.forward_bytes(), gradients = batch.backward_bytes();
    const auto sample = batch.samples().front();
    for (const auto& cut : cuts) {
      for (auto* x : {&batch.out, &batch.lse, &batch.dq, &batch.dk, &batch.dv}) x->fill(9);
      const size_t chunks = cut.size() - 1;
      const auto each_rank = [&](auto run) {
        for (size_t rank = 0; rank < (chunks + 1) / 2; ++rank) {
          run({cut[rank], cut[rank + 1]}, {cut[chunks - 1 - rank], cut[chunks - rank]});
        }
      };
      each_rank([&](Range first, Range second) {
        std::vector<AttentionSample> list;
        for (const Range r : {first, second}) list.push_back({r, r.begin, sample.k, sample.v});
        set.attention(batch.forward_op(list), pool);
      });
      REQUIRE((batch.forward_bytes() == forward));
      each_rank([&](Range first, Range second) {
        std::vector<AttentionBackwardSample> queries, keys;
        for (const Range r : {first, second}) {
          queries.push_back({r, r.begin, sample.k, sample.v, {}, 0});
          keys.push_back({{0, 700}, 0, sample.k, sample.v, r, r.begin});
        }
        set.attention_backward(batch.backward_op(queries), pool);
        auto owner = batch.backward_op(keys);
        owner.dq = {};
        set.attention_backward(owner, pool);
      });
      REQUIRE((batch.backward_bytes() == gradients));
    }
  });
}

TEST_CASE("attention: the owner of keys needs only the queries that see them") {
  each_set([](const KernelSet& set, ThreadPool& pool) {
    const AttentionShape shape{.lengths = {300}, .heads = 2, .group = 1, .size = 16};
    AttentionBatch batch = computed(shape, set, pool);
    const std::string gradients = batch.backward_bytes();
    const auto sample = batch.samples().front();
    for (auto* x : {&batch.dk, &batch.dv}) x->fill(9);
    for (const Range keys : {Range{0, 128}, Range{128, 256}, Range{256, 300}}) {
      std::vector<AttentionBackwardSample> list = {
          {{keys.begin, 300}, keys.begin, sample.k, sample.v, keys, keys.begin}};
      auto op = batch.backward_op(list);
      op.dq = {};
      set.attention_backward(op, pool);
    }
    REQUIRE((batch.backward_bytes() == gradients));
  });
}

TEST_CASE("attention: a key that no query sees has gradients +0") {
  each_set([](const KernelSet& set, ThreadPool& pool) {
    AttentionBatch batch =
        computed({.lengths = {130}, .heads = 1, .group = 1, .size = 8}, set, pool);
    const auto sample = batch.samples().front();
    std::vector<AttentionBackwardSample> list = {{{0, 3}, 0, sample.k, sample.v, {1, 130}, 1}};
    set.attention_backward(batch.backward_op(list), pool);
    for (const auto* x : {&batch.dk, &batch.dv}) {
      const std::string bytes = x->bytes().substr(3 * 8 * sizeof(float));
      REQUIRE((bytes == std::string(127 * 8 * sizeof(float), '\0')));
    }
    list = {{{0, 0}, 0, sample.k, sample.v, {0, 130}, 0}};
    set.attention_backward(batch.backward_op(list), pool);
    REQUIRE((batch.dk.bytes() == std::string(130 * 8 * sizeof(float), '\0')));
  });
}

namespace {

/// One tensor-parallel rank: query heads [first, first + count) of a batch, computed on scalars of
/// its own, and written to the batch's out and dq.
void run_rank(AttentionBatch& batch, Range heads, const KernelSet& set, ThreadPool& pool) {
  const int64_t group = batch.shape.group;
  const HeadGroups groups{heads.begin, group};
  const int64_t first = heads.begin / group, count = groups.kv_heads(heads.size());
  Guarded<float> lse(batch.tokens, heads.size(), 3, 0), delta(batch.tokens, heads.size(), 1, 0);
  auto samples = batch.samples();
  auto backward = batch.backward_samples();
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].k = backward[i].k = some_heads(samples[i].k, first, count);
    samples[i].v = backward[i].v = some_heads(samples[i].v, first, count);
    backward[i].keys = {};
  }
  const auto mine = [&](Guarded<float>& x) {
    return some_heads(batch.query_heads(x), heads.begin, heads.size());
  };
  set.attention({samples, groups, mine(batch.q), mine(batch.out), lse.view().data}, pool);
  set.attention_delta({mine(batch.dout), mine(batch.out), delta.view().data}, pool);
  set.attention_backward({backward,
                          groups,
                          mine(batch.q),
                          mine(batch.dout),
                          lse.view().data,
                          delta.view().data,
                          mine(batch.dq),
                          {},
                          {}},
                         pool);
  for (int64_t t = 0; t < batch.tokens; ++t) {
    for (int64_t h = 0; h < heads.size(); ++h) {
      batch.lse(t, heads.begin + h) = lse(t, h);
      batch.delta(t, heads.begin + h) = delta(t, h);
    }
  }
}

/// The owner of kv head `kv_head`, with the gathered queries of its whole group.
void run_owner(AttentionBatch& batch, int64_t kv_head, const KernelSet& set, ThreadPool& pool) {
  const int64_t group = batch.shape.group, first = kv_head * group;
  Guarded<float> lse(batch.tokens, group, 3, 0), delta(batch.tokens, group, 1, 0);
  for (int64_t t = 0; t < batch.tokens; ++t) {
    for (int64_t h = 0; h < group; ++h) {
      lse(t, h) = batch.lse(t, first + h);
      delta(t, h) = batch.delta(t, first + h);
    }
  }
  auto samples = batch.backward_samples();
  for (auto& s : samples) {
    s.k = some_heads(s.k, kv_head, 1);
    s.v = some_heads(s.v, kv_head, 1);
  }
  set.attention_backward({samples,
                          {first, group},
                          some_heads(batch.query_heads(batch.q), first, group),
                          some_heads(batch.query_heads(batch.dout), first, group),
                          lse.view().data,
                          delta.view().data,
                          {},
                          some_heads(batch.key_heads(batch.dk), kv_head, 1),
                          some_heads(batch.key_heads(batch.dv), kv_head, 1)},
                         pool);
}

}  // namespace

TEST_CASE("attention: tensor-parallel ranks with replicated keys give the bits of one rank") {
  struct Layout {
    int64_t heads, group, ranks;
  };
  each_set([](const KernelSet& set, ThreadPool& pool) {
    for (const auto [heads, group, ranks] :
         {Layout{4, 2, 2}, {4, 2, 4}, {24, 8, 8}, {6, 3, 2}, {16, 2, 8}, {12, 3, 4}, {6, 3, 6}}) {
      CAPTURE(heads, group, ranks);
      const AttentionShape shape{.lengths = {75, 4}, .heads = heads, .group = group, .size = 8};
      AttentionBatch batch = computed(shape, set, pool);
      const std::string forward = batch.forward_bytes(), gradients = batch.backward_bytes();
      for (auto* x : {&batch.out, &batch.lse, &batch.delta, &batch.dq, &batch.dk, &batch.dv}) {
        x->fill(9);
      }
      for (int64_t r = 0; r < ranks; ++r) {
        run_rank(batch, {heads * r / ranks, heads * (r + 1) / ranks}, set, pool);
      }
      for (int64_t g = 0; g < heads / group; ++g) run_owner(batch, g, set, pool);
      REQUIRE((batch.forward_bytes() == forward));
      REQUIRE((batch.backward_bytes() == gradients));
      REQUIRE(batch.intact());
    }
  });
}

TEST_CASE("attention: operands that do not fit are refused") {
  const auto& set = cpu_kernels();
  ThreadPool& pool = *pools().front();
  AttentionBatch batch = filled({.lengths = {4}, .heads = 2, .group = 2, .size = 8});
  auto samples = batch.samples();
  samples[0].k = rows(samples[0].k, 0, 3);
  REQUIRE_THROWS_AS(set.attention(batch.forward_op(samples), pool), rlreplay::Error);
  samples = batch.samples();
  samples[0].position = 1;
  REQUIRE_THROWS_AS(set.attention(batch.forward_op(samples), pool), rlreplay::Error);
  samples = batch.samples();
  auto op = batch.forward_op(samples);
  op.q.dim = op.out.dim = 257;
  REQUIRE_THROWS_AS(set.attention(op, pool), rlreplay::Error);
  op = batch.forward_op(samples);
  op.groups = {0, 1};
  REQUIRE_THROWS_AS(set.attention(op, pool), rlreplay::Error);
  auto backward = batch.backward_samples();
  backward[0].dk_row = 1;
  REQUIRE_THROWS_AS(set.attention_backward(batch.backward_op(backward), pool), rlreplay::Error);
}

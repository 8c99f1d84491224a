#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>

#include "tests/kernels/attention_support.h"
#include "tests/kernels/sets.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

bool full() { return std::getenv("RLREPLAY_FULL") != nullptr; }

AttentionBatch drawn(const AttentionShape& shape, const std::function<float(Random&)>& draw) {
  Random random(static_cast<uint64_t>(shape.size * 131 + shape.heads));
  AttentionBatch batch(shape);
  batch.fill([&] { return draw(random); });
  return batch;
}

/// Every set with every number of threads against the reference, forward and backward.
void compare(const AttentionShape& shape, const std::function<float(Random&)>& draw) {
  CAPTURE(shape.lengths, shape.heads, shape.group, shape.size, shape.first_head, shape.position);
  require_equal_sets([&](const KernelSet& set, rlreplay::ThreadPool& pool) {
    AttentionBatch batch = drawn(shape, draw);
    batch.forward(set, pool);
    batch.backward(set, pool);
    CAPTURE(set.name, pool.threads());
    REQUIRE(batch.intact());
    return batch.forward_bytes() + batch.backward_bytes();
  });
}

float normal(Random& random) { return random.normal(); }

}  // namespace

TEST_CASE("attention: every set gives the reference's bits, lengths around blocks and splits") {
  for (const int64_t n : {1, 2, 63, 64, 65, 127, 129}) {
    compare({.lengths = {n}, .heads = 4, .group = 2, .size = 24}, normal);
  }
  for (const int64_t n : {511, 512, 513, 700}) {
    compare({.lengths = {n}, .heads = 2, .group = 2, .size = 8}, normal);
  }
  compare({.lengths = {full() ? 1100 : 1030}, .heads = 1, .group = 1, .size = 7}, normal);
}

TEST_CASE("attention: every head size that a vector does not divide, and those that it does") {
  for (const int64_t size : {1, 7, 24, 36, 48, 64, 80, 96, 128, 250, 256}) {
    compare({.lengths = {70, 3}, .heads = 3, .group = 3, .size = size}, normal);
  }
}

TEST_CASE("attention: groups of heads, whole and held in part") {
  for (const auto& [heads, group, first] : std::vector<std::array<int64_t, 3>>{{1, 1, 0},
                                                                               {4, 2, 0},
                                                                               {16, 8, 0},
                                                                               {6, 2, 0},
                                                                               {3, 1, 0},
                                                                               {14, 7, 0},
                                                                               {2, 4, 2},
                                                                               {3, 4, 3},
                                                                               {5, 3, 7}}) {
    compare({.lengths = {67, 9}, .heads = heads, .group = group, .size = 20, .first_head = first},
            normal);
  }
}

TEST_CASE("attention: ragged batches, with samples that have no token") {
  compare({.lengths = {5, 0, 130, 1, 64, 0}, .heads = 4, .group = 2, .size = 16}, normal);
  compare({.lengths = {0}, .heads = 2, .group = 1, .size = 16}, normal);
  compare({.lengths = {}, .heads = 2, .group = 1, .size = 16}, normal);
}

TEST_CASE("attention: later queries of samples whose keys are there") {
  for (const int64_t position : {1, 63, 500, 1023}) {
    compare({.lengths = {1, 3}, .heads = 7, .group = 7, .size = 64, .position = position}, normal);
    compare({.lengths = {17}, .heads = 2, .group = 1, .size = 12, .position = position}, normal);
  }
}

TEST_CASE("attention: signed zeros, subnormals, tiny and huge numbers") {
  compare({.lengths = {70, 140}, .heads = 2, .group = 2, .size = 12}, awkward);
  compare({.lengths = {70}, .heads = 2, .group = 1, .size = 33}, awkward);
  // Scores that are all zeros of either sign, values and gradients that underflow in products.
  compare({.lengths = {90}, .heads = 2, .group = 1, .size = 5}, [](Random& random) {
    return random.below(2) == 0 ? -0.0f : -1e-38f * static_cast<float>(random.uniform());
  });
}

namespace {

/// Which elements are no numbers; the bits of the others.
std::string numbers(const Guarded<float>& x) {
  std::string out;
  const auto view = x.view();
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) {
      const float value = std::isnan(view(r, c)) ? NAN : view(r, c);
      out.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  return out;
}

/// What a batch holds once `spoil` has put something that is no finite number into it.
void compare_spoilt(const AttentionShape& shape,
                    const std::function<void(AttentionBatch&)>& spoil) {
  require_equal_sets([&](const KernelSet& set, rlreplay::ThreadPool& pool) {
    AttentionBatch batch = drawn(shape, normal);
    batch.forward(reference_kernels(), *pools()[0]);  // finite lse and delta, unless spoilt
    spoil(batch);
    batch.backward(set, pool);
    const std::string backward = numbers(batch.dq) + numbers(batch.dk) + numbers(batch.dv);
    batch.forward(set, pool);
    CAPTURE(set.name, pool.threads());
    return backward + numbers(batch.out) + numbers(batch.lse);
  });
}

}  // namespace

TEST_CASE("attention: an infinity or NaN touches what depends on it and nothing else") {
  const AttentionShape shape{.lengths = {70, 9}, .heads = 4, .group = 2, .size = 24};
  using Tensor = Guarded<float> AttentionBatch::*;
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    for (const int64_t row : {0, 3, 40, 63, 64, 69, 73}) {
      for (const Tensor tensor :
           {&AttentionBatch::q, &AttentionBatch::k, &AttentionBatch::v, &AttentionBatch::dout}) {
        CAPTURE(bad, row);
        compare_spoilt(shape, [&](AttentionBatch& batch) { (batch.*tensor)(row, 5) = bad; });
      }
      compare_spoilt(shape, [&](AttentionBatch& batch) { batch.lse(row, 1) = bad; });
    }
  }
}

TEST_CASE("attention: rows before an infinite key and keys behind an infinite query stay numbers") {
  AttentionBatch batch = drawn({.lengths = {70}, .heads = 1, .group = 1, .size = 24}, normal);
  const auto numbers_in = [](const Guarded<float>& x, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < x.view().cols; ++c) {
        if (!std::isfinite(x.view()(r, c))) return false;
      }
    }
    return true;
  };
  for (const KernelSet* set :
       {&reference_kernels(), &cpu_kernel_sets().front(), &cpu_kernel_sets().back()}) {
    CAPTURE(set->name);
    AttentionBatch key = batch, query = batch;
    key.forward(*set, *pools()[0]);
    key.k(40, 0) = INFINITY;
    key.backward(*set, *pools()[0]);
    REQUIRE(numbers_in(key.dq, 0, 40));
    REQUIRE_FALSE(numbers_in(key.dq, 40, 41));
    query.forward(*set, *pools()[0]);
    query.q(40, 0) = INFINITY;
    query.dout(40, 0) = INFINITY;
    query.backward(*set, *pools()[0]);
    REQUIRE(numbers_in(query.dk, 41, 70));
    REQUIRE(numbers_in(query.dv, 41, 70));
    REQUIRE_FALSE(numbers_in(query.dk, 40, 41));
  }
}

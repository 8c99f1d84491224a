#include <numeric>

#include "tests/kernels/vocab_support.h"

using namespace rlreplay;
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;

namespace {

/// Logits as hard as finite ones get: zeros of both signs, subnormals, ties, far outliers.
Guarded<float> hard_logits(Random& random, int64_t rows, int64_t cols) {
  auto out = awkward_matrix(random, rows, cols);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t j = 0; j < cols; ++j) {
      if (random.below(2) == 0) out(t, j) = random.normal() * 5;
    }
    if (cols > 0 && t % 3 == 1) out(t, random.below(cols)) = 3e30f;
  }
  return out;
}

}  // namespace

TEST_CASE("vocab: every set gives the reference's bits, gradients in place too") {
  Random random(21);
  for (const int64_t rows : row_counts()) {
    for (const int64_t cols : odd_sizes()) {
      for (const float temperature : {1.0f, 0.7f}) {
        CAPTURE(rows, cols, temperature);
        const auto logits = hard_logits(random, rows, cols);
        const auto loss = random_loss(random, rows, cols);
        const auto want = require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
          const auto out = run_vocab(set, pool, logits, cols, loss, {.temperature = temperature});
          return out.bytes();
        });
        require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
          const auto out = run_vocab(set, pool, logits, cols, loss,
                                     {.temperature = temperature, .in_place = true});
          REQUIRE(out.bytes() == want);
          return out.bytes();
        });
      }
    }
  }
}

TEST_CASE("vocab: long rows are cut into tiles without a trace") {
  Random random(22);
  const int64_t cols = 50021;  // more than one tile in every segment border's neighbourhood
  const auto logits = hard_logits(random, 3, cols);
  const auto loss = random_loss(random, 3, cols);
  require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
    return run_vocab(set, pool, logits, cols, loss, {.temperature = 1.3f}).bytes();
  });
}

TEST_CASE("vocab_max: the sign of a zero maximum is plus, whatever the order") {
  for (const auto& values : std::vector<std::vector<float>>{
           {-0.0f}, {-0.0f, 0.0f}, {0.0f, -0.0f}, {-0.0f, -0.0f, -1.0f}}) {
    require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
      auto l = values;
      float max = -1;
      set.vocab_max({{l.data(), 1, static_cast<int64_t>(l.size())}, 1.0f, &max}, pool);
      REQUIRE(std::bit_cast<uint32_t>(max) == 0);
      REQUIRE(bytes_of(l) == bytes_of(values));
      return bytes_of(l);
    });
  }
}

TEST_CASE("vocab: no columns of a rank give -infinity and +0") {
  require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
    float max[2] = {1, 1}, z[2] = {1, 1}, e[2] = {1, 1};
    const Range nothing = {0, 0};
    set.vocab_max({{nullptr, 2, 0}, 0.5f, max}, pool);
    REQUIRE((max[0] == -INFINITY && max[1] == -INFINITY));
    set.vocab_sums({{nullptr, 2, 0}, max, {&nothing, 1}, {z, 2, 1}, {e, 2, 1}}, pool);
    for (const float x : {z[0], z[1], e[0], e[1]}) REQUIRE(std::bit_cast<uint32_t>(x) == 0);
    return std::string();
  });
}

TEST_CASE("log_prob_backward: a row without weight gets +0, even from infinities") {
  Random random(23);
  const auto l = awkward_matrix(random, 2, 100);
  const float huge[2] = {INFINITY, NAN}, zero[2] = {0.0f, -0.0f};
  const int32_t labels[2] = {3, 500};
  require_equal_sets([&](const KernelSet& set, ThreadPool& pool) {
    Guarded<float> d(2, 100);
    set.log_prob_backward({.logits = l.view(),
                           .max = huge,
                           .sum = huge,
                           .log_sum = huge,
                           .entropy = huge,
                           .labels = labels,
                           .c = zero,
                           .ce = zero,
                           .temperature = 0.3f,
                           .dlogits = d.view()},
                          pool);
    REQUIRE(d.intact());
    REQUIRE(d.bytes() == std::string(800, '\0'));
    return d.bytes();
  });
}

TEST_CASE("vocab: a row's bits do not depend on its batch") {
  Random random(24);
  const int64_t cols = 643;
  const auto logits = hard_logits(random, 9, cols);
  const auto loss = random_loss(random, 9, cols);
  for (const auto& set : cpu_kernel_sets()) {
    std::vector<int64_t> all(9);
    std::iota(all.begin(), all.end(), 0);
    const auto want = run_vocab(set, *pools()[1], logits, cols, loss, {});
    for (const auto& pick : std::vector<std::vector<int64_t>>{{4}, {8, 0}, {3, 5, 1, 7, 2}}) {
      const auto got =
          run_vocab(set, *pools()[2], pick_rows(logits, pick, cols), cols, loss.pick(pick), {});
      for (size_t i = 0; i < pick.size(); ++i) {
        REQUIRE(got.row_bytes(static_cast<int64_t>(i)) == want.row_bytes(pick[i]));
      }
    }
  }
}

TEST_CASE("vocab: 1, 2, 4 and 8 ranks that move bytes give one rank's bits") {
  Random random(25);
  for (const int64_t cols : {5, 8, 643, 2049, 20011}) {
    const auto logits = hard_logits(random, 5, cols);
    const auto loss = random_loss(random, 5, cols);
    for (const auto& set : cpu_kernel_sets()) {
      const auto want = run_vocab(set, *pools()[0], logits, cols, loss, {.temperature = 0.9f});
      for (const int64_t ranks : {2, 4, 8}) {
        CAPTURE(cols, set.name, ranks);
        const auto got =
            run_vocab(set, *pools()[1], logits, cols, loss, {.temperature = 0.9f, .ranks = ranks});
        REQUIRE(got.bytes() == want.bytes());
      }
    }
  }
}

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "kernels/functions.h"
#include "kernels/kernels.h"
#include "src/base/thread_pool.h"
#include "tests/kernels/draw_tokens_support.h"
#include "tests/kernels/support.h"

using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;
using rlreplay::ThreadPool;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const char* const kKinds[] = {"normal", "narrow", "equal", "few values", "banned", "one", "zeros"};

/// A row of logits that is hard in one way.
void fill_row(std::string_view kind, Random& random, float* row, int64_t vocab) {
  for (int64_t i = 0; i < vocab; ++i) {
    row[i] = random.normal() * 4;
    if (kind == "narrow") row[i] = random.normal() * 0.05f;
    if (kind == "equal") row[i] = 1.25f;
    if (kind == "few values") row[i] = static_cast<float>(random.below(3));
    if (kind == "banned" && random.below(4) != 0) row[i] = -kInfinity;
    if (kind == "one") row[i] = -40;
    if (kind == "zeros") row[i] = random.below(2) == 0 ? 0.0f : -0.0f;
  }
  if (kind == "banned" || kind == "one") row[random.below(vocab)] = 2;
}

/// All kinds of rows over one vocabulary.
Problem problem(int64_t vocab, uint64_t seed) {
  Random random(seed);
  Problem out(static_cast<int64_t>(std::size(kKinds)), vocab);
  for (int64_t t = 0; t < out.rows(); ++t) {
    fill_row(kKinds[t], random, &out.logits(t, 0), vocab);
    out.draws[static_cast<size_t>(t)] = {random.bits() >> 8, static_cast<uint32_t>(random.bits())};
  }
  out.finish();
  return out;
}

double chi_square(const std::map<int32_t, int>& seen, const std::vector<double>& p, int draws) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const auto at = seen.find(static_cast<int32_t>(i));
    const int count = at == seen.end() ? 0 : at->second;
    if (p[i] == 0) {
      REQUIRE(count == 0);
      continue;
    }
    const double expected = p[i] * draws;
    sum += (count - expected) * (count - expected) / expected;
  }
  return sum;
}

}  // namespace

TEST_CASE("philox: the known answers of Random123") {
  const auto words = [](Words4 counter, uint64_t key) {
    const Words4 out = philox(counter, key);
    return std::vector<uint32_t>(out.word, out.word + 4);
  };
  CHECK(words({{0, 0, 0, 0}}, 0) ==
        std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words({{~0u, ~0u, ~0u, ~0u}}, ~0ull) ==
        std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822ull) ==
        std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("noise: u is never 0 or 1, the noise is finite and below the bound of the SIMD path") {
  CHECK(open_unit(0) == 0x1p-24f);
  CHECK(open_unit(~0u) == 1 - 0x1p-24f);
  CHECK((static_cast<float>(~0u >> 8) + 0.5f) * 0x1p-24f == 1.0f);  // what 24 bits would give
  const FunctionSet set = simd_functions().empty() ? scalar_functions() : simd_functions().front();
  std::vector<float> u(1 << 16);
  float least = kInfinity, most = -kInfinity;
  for (uint32_t block = 0; block < 1u << 23; block += 1 << 16) {
    for (uint32_t i = 0; i < 1 << 16; ++i) u[i] = open_unit((block + i) << 9);
    set.apply(Function::kLog, u, u.data());
    for (float& x : u) x = -x;
    set.apply(Function::kLog, u, u.data());
    for (const float x : u) least = std::min(least, -x), most = std::max(most, -x);
  }
  CHECK(least > -3);
  CHECK(most > 16.6f);
  CHECK(most < 16.75f);
}

TEST_CASE("draw_tokens: every set draws the reference's ids, with any number of threads") {
  std::vector<int64_t> vocabularies = {1, 2, 5, 63, 64, 65, 643, 4097};
  if (full()) vocabularies.push_back(151936);
  for (const int64_t vocab : vocabularies) {
    const Problem p = problem(vocab, 7 + static_cast<uint64_t>(vocab));
    for (const Rules& rules : rules_to_try(vocab)) {
      CAPTURE(vocab, rules.top_k, rules.top_p, rules.greedy);
      ThreadPool one(1);
      const auto want = p.draw(reference_kernels(), rules, one);
      for (const auto& set : cpu_kernel_sets()) {
        for (const int threads : {1, 2, 4}) {
          ThreadPool pool(threads);
          CAPTURE(set.name, threads);
          REQUIRE(p.draw(set, rules, pool) == want);
        }
      }
    }
  }
  Problem wide(1, 151936);
  Random random(5);
  fill_row("normal", random, &wide.logits(0, 0), wide.vocab());
  wide.finish();
  ThreadPool pool(2);
  for (const Rules& rules : {Rules{}, Rules{.top_k = 50, .top_p = 0.9}, Rules{.top_p = 0.99}}) {
    const auto want = wide.draw(reference_kernels(), rules, pool);
    for (const auto& set : cpu_kernel_sets()) REQUIRE(wide.draw(set, rules, pool) == want);
  }
}

TEST_CASE("draw_tokens: a row draws the same id alone, in a batch, and in another batch") {
  const Problem p = problem(643, 3);
  ThreadPool pool(2);
  for (const auto& set : all_sets()) {
    for (const Rules& rules : rules_to_try(643)) {
      const auto whole = p.draw(set, rules, pool);
      const auto tail = p.part(2, 4).draw(set, rules, pool);
      for (int64_t t = 0; t < p.rows(); ++t) {
        CAPTURE(set.name, t);
        REQUIRE(p.part(t, 1).draw(set, rules, pool)[0] == whole[static_cast<size_t>(t)]);
        if (t >= 2 && t < 6) {
          REQUIRE(tail[static_cast<size_t>(t - 2)] == whole[static_cast<size_t>(t)]);
        }
      }
    }
  }
}

TEST_CASE("draw_tokens: greedy is the first maximum; a banned id is never drawn") {
  Problem p(3, 70);
  p.logits.fill(-1);
  p.logits(0, 66) = p.logits(0, 69) = 3;
  for (int64_t i = 0; i < 70; ++i) p.logits(1, i) = i == 41 ? -30.0f : -kInfinity;
  for (int64_t i = 0; i < 70; ++i) p.logits(2, i) = -kInfinity;  // nothing is possible
  p.finish();
  ThreadPool pool(1);
  for (const auto& set : all_sets()) {
    CAPTURE(set.name);
    CHECK(p.draw(set, {.greedy = true}, pool) == std::vector<int32_t>{66, 41, 0});
    CHECK(p.draw(set, {.top_k = 1}, pool) == std::vector<int32_t>{66, 41, 0});
    CHECK(p.draw(set, {.top_p = 1e-9}, pool)[0] == 66);
    CHECK(p.draw(set, {}, pool)[1] == 41);
    CHECK(p.draw(set, {.top_k = 5, .top_p = 0.999}, pool)[1] == 41);
    CHECK(p.draw(set, {.top_k = 5}, pool)[2] == 0);
  }
}

// The 0.9999 quantiles of chi-square; the seed is fixed, so this can fail only for a reason.
TEST_CASE("draw_tokens: frequencies follow the softmax, restricted or not") {
  constexpr int kDraws = 20000;
  constexpr int64_t kVocab = 40;
  Random random(11);
  Problem p(kDraws, kVocab);
  for (int64_t i = 0; i < kVocab; ++i) p.logits(0, i) = random.normal() * 1.5f;
  p.logits(0, 3) = p.logits(0, 17);
  for (int t = 0; t < kDraws; ++t) {
    for (int64_t i = 0; i < kVocab; ++i) p.logits(t, i) = p.logits(0, i);
    p.draws[static_cast<size_t>(t)] = {static_cast<uint64_t>(t % 50),
                                       static_cast<uint32_t>(t / 50)};
  }
  p.finish();
  const std::vector<float> row(&p.logits(0, 0), &p.logits(0, 0) + kVocab);
  ThreadPool pool(2);
  const auto& set = cpu_kernels();
  for (const Rules& rules : {Rules{}, Rules{.top_k = 10}, Rules{.top_p = 0.8},
                             Rules{.top_k = 20, .top_p = 0.9}, Rules{.top_k = 2}}) {
    std::map<int32_t, int> seen;
    for (const int32_t id : p.draw(set, rules, pool)) ++seen[id];
    std::vector<double> want = exact_distribution(row, p.max[0], p.sum[0], rules);
    CAPTURE(rules.top_k, rules.top_p);
    int possible = 0;
    for (const double q : want) possible += q > 0;
    const double freedom = std::max(1, possible - 1);
    // Wilson and Hilferty's approximation of the quantile.
    const double h = 2 / (9 * freedom);
    const double limit = freedom * std::pow(1 - h + 3.72 * std::sqrt(h), 3);
    CHECK(chi_square(seen, want, kDraws) < limit);
  }
}

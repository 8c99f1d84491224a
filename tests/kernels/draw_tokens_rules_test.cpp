#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/contract.h"
#include "tests/kernels/draw_tokens_support.h"

/// A second reading of the rules of sampling, with one mistake at a time: each must be seen.
using namespace rlreplay::kernels;
using namespace rlreplay::kernels::test;
using rlreplay::ThreadPool;
namespace contract = rlreplay::contract;

namespace {

enum class Mistake {
  kNone,
  kTopBits24,            // the largest u rounds to 1
  kNoHalf,               // u may be 0
  kNoiseByRank,          // noise belongs to the place in the sorted list
  kNoiseByCandidate,     // or to the place among those that stay
  kSeedLow,              // only half of the key
  kStreamForgotten,      //
  kSampleHighForgotten,  // sample ids are cut to 32 bits
  kPositionForgotten,    //
  kWordOfNextId,         // word (id + 1) mod 4
  kNineRounds,           //
  kTopPFirst,            // top-k after top-p
  kTopPKeepsTies,        // <= instead of <
  kTopPNotOfKept,        // top_p of the whole vocabulary instead of what top-k kept
  kMassAfter,            // an id stays only if its own mass fits too
  kFirstMayGo,           //
  kHighestTie,           // top-k takes the highest id of a tie
  kLastOfEqualScores,    // >= instead of >
  kLogOnce,              // l - log u
};

struct Copy {
  const Problem& p;
  Rules rules;
  Mistake mistake;

  bool is(Mistake m) const { return mistake == m; }

  float noise(int64_t t, int64_t id) const {
    const Draw& draw = p.draws[static_cast<size_t>(t)];
    const uint64_t sample = draw.sample;
    const uint64_t high = is(Mistake::kSampleHighForgotten) ? 0 : sample >> 32;
    const uint64_t stream = is(Mistake::kStreamForgotten) ? 0 : rules.stream;
    uint32_t c[4] = {static_cast<uint32_t>(id / 4),
                     is(Mistake::kPositionForgotten) ? 0 : draw.position,
                     static_cast<uint32_t>(sample), static_cast<uint32_t>(high | stream << 24)};
    uint32_t k0 = static_cast<uint32_t>(rules.seed);
    uint32_t k1 = is(Mistake::kSeedLow) ? 0 : static_cast<uint32_t>(rules.seed >> 32);
    for (int round = 0; round < (is(Mistake::kNineRounds) ? 9 : 10); ++round) {
      const uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
      const uint32_t next[4] = {
          static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
      std::copy(next, next + 4, c);
      k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    const uint32_t word = c[(id + (is(Mistake::kWordOfNextId) ? 1 : 0)) % 4];
    const float half = is(Mistake::kNoHalf) ? 0 : 0.5f;
    const float u = is(Mistake::kTopBits24) ? (static_cast<float>(word >> 8) + half) * 0x1p-24f
                                            : (static_cast<float>(word >> 9) + half) * 0x1p-23f;
    const float inner = contract::log<contract::Scalar>(u);
    return is(Mistake::kLogOnce) ? inner : contract::log<contract::Scalar>(-inner);
  }

  using Ids = std::vector<int64_t>;

  Ids top_k(Ids order) const {
    const int64_t n = static_cast<int64_t>(order.size());
    if (rules.top_k > 0 && rules.top_k < n) order.resize(static_cast<size_t>(rules.top_k));
    return order;
  }

  Ids top_p(const Ids& order, const Ids& all, int64_t t) const {
    if (rules.top_p >= 1) return order;
    const float m = p.max[static_cast<size_t>(t)], inverse = 1.0f / p.sum[static_cast<size_t>(t)];
    const auto mass = [&](int64_t id) {
      const float e = contract::exp<contract::Scalar>(p.logits.view()(t, id) - m);
      return static_cast<uint64_t>(e * inverse * 0x1p32f);
    };
    uint64_t kept = 0, before = 0;
    for (const int64_t id : is(Mistake::kTopPNotOfKept) ? all : order) kept += mass(id);
    __extension__ using Wide = unsigned __int128;
    const Wide limit = static_cast<Wide>(rules.top_p * 0x1p24) * kept;
    Ids out;
    for (const int64_t id : order) {
      const bool first = out.empty() && !is(Mistake::kFirstMayGo);
      const uint64_t used = before + (is(Mistake::kMassAfter) ? mass(id) : 0);
      const Wide left = static_cast<Wide>(used) << 24;
      const bool fits = is(Mistake::kTopPKeepsTies) ? left <= limit : left < limit;
      if (!first && !fits) break;
      out.push_back(id);
      before += mass(id);
    }
    return out;
  }

  int32_t draw(int64_t t) const {
    Ids all(static_cast<size_t>(p.vocab()));
    std::iota(all.begin(), all.end(), 0);
    const auto value = [&](int64_t id) { return p.logits.view()(t, id); };
    std::sort(all.begin(), all.end(), [&](int64_t a, int64_t b) {
      if (value(a) != value(b)) return value(a) > value(b);
      return is(Mistake::kHighestTie) ? a > b : a < b;
    });
    Ids ids = is(Mistake::kTopPFirst) ? top_k(top_p(all, all, t)) : top_p(top_k(all), all, t);
    if (is(Mistake::kNoiseByRank)) {
      // Places in the list of best first, as seeded samplers that sort do it.
    } else {
      std::sort(ids.begin(), ids.end());
    }
    int64_t best = ids.empty() ? -1 : ids[0];
    float best_score = -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool by_place = is(Mistake::kNoiseByRank) || is(Mistake::kNoiseByCandidate);
      const int64_t name = by_place ? static_cast<int64_t>(i) : ids[i];
      const float score = value(ids[i]) - noise(t, name);
      const bool wins = is(Mistake::kLastOfEqualScores) ? score >= best_score : score > best_score;
      if (wins) best_score = score, best = ids[i];
    }
    return static_cast<int32_t>(best);
  }

  std::vector<int32_t> draw_all() const {
    std::vector<int32_t> out;
    for (int64_t t = 0; t < p.rows(); ++t) out.push_back(draw(t));
    return out;
  }
};

/// Rows of few values, so that borders fall on ties, and masses that top-p divides evenly.
Problem planted() {
  constexpr int64_t kRows = 60, kVocab = 64;
  Random random(23);
  Problem p(kRows, kVocab);
  for (int64_t t = 0; t < kRows; ++t) {
    for (int64_t i = 0; i < kVocab; ++i) {
      p.logits(t, i) = t % 3 == 0 ? 0.5f : static_cast<float>(random.below(4)) * 0.25f;
    }
    p.draws[static_cast<size_t>(t)] = {random.bits() >> 8, static_cast<uint32_t>(random.bits())};
  }
  p.finish();
  return p;
}

std::vector<int32_t> all_rules(const Problem& p, Mistake mistake) {
  std::vector<int32_t> out;
  for (const int64_t k : {0, 1, 7, 16}) {
    for (const double top_p : {1.0, 0.5, 0.25, 1e-9}) {
      const auto ids = Copy{p, {.top_k = k, .top_p = top_p}, mistake}.draw_all();
      out.insert(out.end(), ids.begin(), ids.end());
    }
  }
  return out;
}

}  // namespace

TEST_CASE("sampling rules: the copy without a mistake agrees, every mistake is seen") {
  const Problem p = planted();
  const auto want = all_rules(p, Mistake::kNone);
  ThreadPool pool(2);
  for (const auto& set : all_sets()) {
    std::vector<int32_t> got;
    for (const int64_t k : {0, 1, 7, 16}) {
      for (const double top_p : {1.0, 0.5, 0.25, 1e-9}) {
        const auto ids = p.draw(set, {.top_k = k, .top_p = top_p}, pool);
        got.insert(got.end(), ids.begin(), ids.end());
      }
    }
    CAPTURE(set.name);
    CHECK((got == want));
  }
  for (int m = 1; m <= static_cast<int>(Mistake::kLogOnce); ++m) {
    const auto mistake = static_cast<Mistake>(m);
    // Equal scores and the ends of u are too rare to meet here: their own tests follow.
    if (mistake == Mistake::kLastOfEqualScores || mistake == Mistake::kNoHalf ||
        mistake == Mistake::kTopBits24) {
      continue;
    }
    CAPTURE(m);
    CHECK((all_rules(p, mistake) != want));
  }
}

TEST_CASE("sampling rules: equal scores go to the lowest id") {
  // Far above the noise every score rounds to the logit, so that all are equal.
  Problem p(1, 9);
  p.logits.fill(0x1p40f);
  p.finish();
  ThreadPool pool(1);
  for (const auto& set : all_sets()) {
    CAPTURE(set.name);
    CHECK(p.draw(set, {}, pool)[0] == 0);
    CHECK(p.draw(set, {.top_k = 8, .top_p = 0.9}, pool)[0] == 0);
  }
  CHECK(Copy{p, {}, Mistake::kLastOfEqualScores}.draw(0) == 8);
}

TEST_CASE("sampling rules: the ends of u") {
  // Words so rare that a test must look for them: at one u rounds to 1 with 24 bits, and its noise
  // is infinite; at the other u is 0 without the half, and no logit is high enough.
  const Rules rules;
  int64_t highest = -1, lowest = -1;
  for (int64_t position = 0; highest < 0 || lowest < 0; ++position) {
    const Draw draw{1, static_cast<uint32_t>(position)};
    const Words4 words = philox(noise_counter(draw, rules.stream, 0), rules.seed);
    if (words.word[2] >= 0xffffff00u) highest = position;
    if (words.word[2] < 0x200u) lowest = position;
  }
  Problem p(2, 4);
  p.draws = {{1, static_cast<uint32_t>(highest)}, {1, static_cast<uint32_t>(lowest)}};
  p.logits.fill(0);
  p.logits(0, 2) = -60;
  p.logits(1, 2) = 60;
  p.finish();
  ThreadPool pool(1);
  for (const auto& set : all_sets()) {
    const auto ids = p.draw(set, rules, pool);
    CAPTURE(set.name);
    CHECK(ids[0] != 2);
    CHECK(ids[1] == 2);
  }
  CHECK(Copy{p, rules, Mistake::kTopBits24}.draw(0) == 2);
  CHECK(Copy{p, rules, Mistake::kNoHalf}.draw(1) != 2);
}

#include "src/bisect/search.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>

using namespace rlreplay::bisect;
using rlreplay::measure::Verdict;

namespace {

struct Walk {
  size_t good = 0, bad = 0, judged = 0, skipped = 0, rounds = 0;
};

/// Searches a row whose first bad place is `first_bad`.
Walk walk(size_t last, size_t first_bad, const std::set<size_t>& unjudged, size_t k = 1) {
  Search search(last);
  Walk result;
  for (auto places = search.next(k); !places.empty(); places = search.next(k)) {
    ++result.rounds;
    REQUIRE(places.size() <= k);
    for (const size_t place : places) {
      REQUIRE(place > 0);
      REQUIRE(place < last);
      const bool skip = unjudged.contains(place);
      ++(skip ? result.skipped : result.judged);
      REQUIRE(result.judged + result.skipped < last);
      search.add(place, skip ? Verdict::kSkip : place < first_bad ? Verdict::kGood : Verdict::kBad);
    }
  }
  result.good = search.good();
  result.bad = search.bad();
  return result;
}

}  // namespace

TEST_CASE("every first bad place of every row is found with log2 of it") {
  for (size_t last = 1; last <= 70; ++last) {
    const auto bound = static_cast<size_t>(std::bit_width(last - 1));
    CHECK(Search(last).left() == bound);
    for (size_t first_bad = 1; first_bad <= last; ++first_bad) {
      const Walk found = walk(last, first_bad, {});
      REQUIRE(found.bad == first_bad);
      REQUIRE(found.good == first_bad - 1);
      REQUIRE(found.judged <= bound);
    }
  }
}

TEST_CASE("places that cannot be judged widen the answer by themselves and no further") {
  uint64_t state = 1;
  for (int round = 0; round < 3000; ++round) {
    const auto draw = [&](size_t below) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<size_t>((state >> 33) % below);
    };
    const size_t last = 1 + draw(60), first_bad = 1 + draw(last);
    std::set<size_t> unjudged;
    for (size_t n = draw(last + 1); n > 0; --n) {
      if (const size_t place = draw(last); place > 0) unjudged.insert(place);
    }
    size_t good = first_bad - 1, bad = first_bad;
    while (unjudged.contains(good)) --good;
    while (unjudged.contains(bad)) ++bad;
    const Walk found = walk(last, first_bad, unjudged);
    REQUIRE(found.good == good);
    REQUIRE(found.bad == bad);
  }
}

TEST_CASE("k at once need the logarithm to the base k + 1") {
  for (const size_t k : {size_t{2}, size_t{3}, size_t{7}}) {
    for (size_t last = 1; last <= 90; ++last) {
      size_t rounds = 0;
      for (size_t reach = 1; reach < last; reach *= k + 1) ++rounds;
      for (size_t first_bad = 1; first_bad <= last; ++first_bad) {
        const Walk found = walk(last, first_bad, {}, k);
        REQUIRE(found.bad == first_bad);
        REQUIRE(found.good == first_bad - 1);
        REQUIRE(found.rounds <= rounds);
      }
    }
  }
}

TEST_CASE("a stretch that cannot be judged is left by strides") {
  std::set<size_t> stretch;
  for (size_t place = 300; place < 700; ++place) stretch.insert(place);
  for (const size_t first_bad : {size_t{10}, size_t{250}, size_t{760}, size_t{999}}) {
    const Walk found = walk(1000, first_bad, stretch);
    CHECK(found.bad == first_bad);
    CHECK(found.judged <= 12);
    CHECK(found.skipped <= 12);
  }
}

TEST_CASE("a single place that cannot be judged costs one run") {
  const Walk found = walk(64, 40, {32});
  CHECK(found.bad == 40);
  CHECK(found.skipped == 1);
  CHECK(found.judged <= 7);
}

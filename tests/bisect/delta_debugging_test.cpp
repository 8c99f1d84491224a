#include "src/bisect/delta_debugging.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace rlreplay;
using namespace rlreplay::bisect;
using measure::Verdict;

namespace {

bool holds(const Subset& set, const Subset& part) { return std::ranges::includes(set, part); }

struct Search {
  MinimalSets found;
  size_t runs = 0;
};

/// A run is bad where it has all of one cause; subsets that `odd` names cannot be judged.
Search search(size_t n, const std::vector<Subset>& causes,
              const std::function<bool(const Subset&)>& odd = {}) {
  Search out;
  std::set<Subset> asked;
  out.found = minimal_sets(n, [&](const Subset& set) {
    REQUIRE(asked.insert(set).second);
    ++out.runs;
    if (odd && odd(set)) return Verdict::kSkip;
    const bool bad = std::ranges::any_of(causes, [&](const Subset& c) { return holds(set, c); });
    return bad ? Verdict::kBad : Verdict::kGood;
  });
  return out;
}

Subset draw(std::mt19937& random, size_t n, size_t size) {
  Subset out;
  while (out.size() < size) out.insert(std::uniform_int_distribution<size_t>(0, n - 1)(random));
  return out;
}

}  // namespace

TEST_CASE("a single key, a pair that matters only together, and two causes are found") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const size_t n = std::uniform_int_distribution<size_t>(4, 30)(random);
    std::vector<Subset> causes;
    if (round % 3 == 0) causes = {draw(random, n, 1)};
    if (round % 3 == 1) causes = {draw(random, n, 2)};
    if (round % 3 == 2) {
      causes = {draw(random, n, 1), draw(random, n, 2)};
      if (holds(causes[1], causes[0])) causes.pop_back();
    }
    std::ranges::sort(causes);
    const Search found = search(n, causes);
    REQUIRE(found.found.sets == causes);
    CHECK(found.found.unresolved == 0);
    CHECK(found.runs <= 12 * n);
  }
}

TEST_CASE("every minimal set is found, as a brute-force scan would") {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const size_t n = std::uniform_int_distribution<size_t>(1, 9)(random);
    std::vector<Subset> causes;
    for (int i = 0; i < 1 + round % 4; ++i) {
      const Subset cause = draw(random, n, 1 + static_cast<size_t>(round) % std::min<size_t>(n, 3));
      std::erase_if(causes, [&](const Subset& c) { return holds(c, cause); });
      const bool covered =
          std::ranges::any_of(causes, [&](const Subset& c) { return holds(cause, c); });
      if (!covered) causes.push_back(cause);
    }
    std::ranges::sort(causes);
    REQUIRE(search(n, causes).found.sets == causes);
  }
}

TEST_CASE("subsets that cannot be judged widen a set and lose none") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const Subset cause = draw(random, 10, 2);
    // A key that only runs with another.
    const Subset needs = draw(random, 10, 2);
    const auto odd = [&](const Subset& set) {
      return set.contains(*needs.begin()) != set.contains(*needs.rbegin());
    };
    const Search found = search(10, {cause}, odd);
    REQUIRE(found.found.sets.size() == 1);
    CHECK(holds(found.found.sets[0], cause));
    CHECK(found.found.sets[0].size() <= 4);
  }
}

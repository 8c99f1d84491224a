#include "src/bisect/change_point.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::bisect;

namespace {

constexpr double kConfidence = 0.95;
constexpr size_t kMost = 400;

using Draw = std::function<double(bool behind, std::mt19937&)>;

struct Outcome {
  int answered = 0, right = 0, runs = 0;
};

/// Searches for a change as the program does: each end three times, then where it helps most.
Outcome simulate(ChangePoint::Values values, const Draw& draw, int searches, bool broken = false) {
  Outcome out;
  for (int round = 0; round < searches; ++round) {
    std::mt19937 random(static_cast<unsigned>(round) + 1);
    const size_t last = std::uniform_int_distribution<size_t>(1, 128)(random);
    const size_t change = std::uniform_int_distribution<size_t>(1, last)(random);
    ChangePoint search(last, values);
    size_t runs = 0;
    const auto run = [&](size_t place) {
      ++runs;
      if (broken && place != 0 && place != last && place % 7 == 3) return search.skip(place);
      search.add(place, draw(place >= change, random));
    };
    for (const size_t end : {size_t{0}, last}) {
      for (int i = 0; i < 3; ++i) run(end);
    }
    while (search.best().probability < kConfidence && runs < kMost) run(search.next());
    out.runs += static_cast<int>(runs);
    const auto best = search.best();
    if (best.probability < kConfidence) continue;
    ++out.answered;
    out.right += change >= best.first && change <= best.last ? 1 : 0;
  }
  return out;
}

Draw rates(double good, double bad) {
  return [=](bool behind, std::mt19937& random) {
    return std::bernoulli_distribution(behind ? bad : good)(random) ? 1.0 : 0.0;
  };
}

Draw normal(double shift, double factor = 1) {
  return [=](bool behind, std::mt19937& random) {
    return 1000 + std::normal_distribution(behind ? shift : 0, behind ? factor : 1)(random);
  };
}

}  // namespace

TEST_CASE("an answer of 95 % is right in 95 of 100 searches, less two at most") {
  const struct {
    const char* name;
    ChangePoint::Values values;
    Draw draw;
  } cases[] = {
      {"rates 0.2 and 0.8", ChangePoint::Values::kVerdicts, rates(0.2, 0.8)},
      {"rates 0 and 0.3", ChangePoint::Values::kVerdicts, rates(0, 0.3)},
      {"rates 0.1 and 1", ChangePoint::Values::kVerdicts, rates(0.1, 1)},
      {"a shift of 3 deviations", ChangePoint::Values::kNumbers, normal(3)},
      {"a shift of 1.5 deviations", ChangePoint::Values::kNumbers, normal(1.5)},
      {"a shift of 30 deviations", ChangePoint::Values::kNumbers, normal(30)},
      {"four times the deviation", ChangePoint::Values::kNumbers, normal(2, 4)},
  };
  const int searches = test::full() ? 1000 : 100;
  for (const auto& c : cases) {
    const Outcome out = simulate(c.values, c.draw, searches);
    INFO(c.name << ": " << out.right << " right of " << out.answered << ", " << out.runs / searches
                << " runs each");
    CHECK(out.answered * 10 >= searches * 9);
    CHECK(out.right >= (kConfidence - 0.02) * out.answered);
  }
}

TEST_CASE("where nothing changes nothing is found") {
  for (const auto& [values, draw] : {std::pair(ChangePoint::Values::kVerdicts, rates(0.5, 0.5)),
                                     std::pair(ChangePoint::Values::kNumbers, normal(0))}) {
    const int searches = test::full() ? 200 : 20;
    CHECK(simulate(values, draw, searches).answered * 100 <= 5 * searches);
  }
}

TEST_CASE("places that cannot be judged keep together what lies around them") {
  const int searches = test::full() ? 1000 : 100;
  const Outcome out = simulate(ChangePoint::Values::kVerdicts, rates(0.1, 0.9), searches, true);
  CHECK(out.answered * 10 >= searches * 9);
  CHECK(out.right >= (kConfidence - 0.02) * out.answered);
}

TEST_CASE("numbers of any size are told apart") {
  const auto of = [](double offset, double factor) -> Draw {
    return [=](bool behind, std::mt19937& random) {
      return factor * (offset + std::normal_distribution(behind ? 6.0 : 0.0)(random));
    };
  };
  const Draw ends_of_range = [](bool behind, std::mt19937&) { return behind ? 1.7e308 : -1.7e308; };
  for (const Draw& draw : {of(0, 1e200), of(0, 1e-200), of(0, 1e306), of(1e-3, 1e-306), of(1e9, 1),
                           of(-1e12, 1), ends_of_range}) {
    const Outcome out = simulate(ChangePoint::Values::kNumbers, draw, 50);
    CHECK(out.answered >= 48);
    CHECK(out.right >= 0.93 * out.answered);
  }
}

TEST_CASE("values that repeat find the change in about as many runs as halving") {
  const Outcome out = simulate(ChangePoint::Values::kNumbers, normal(1e9), 50);
  CHECK(out.right == out.answered);
}

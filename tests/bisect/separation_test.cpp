#include "src/replay/measure/separation.h"

#include <catch2/catch.hpp>

using namespace rlreplay::measure;
using Catch::Matchers::Contains;

namespace {

Measurement with(double loss, double reward) {
  return {.kind = RunKind::kRan,
          .evidence = Evidence::kMetrics,
          .metrics = {{"loss", true, {{0.5}, {loss}}, {}}, {"reward", false, {{reward}}, {}}}};
}

}  // namespace

TEST_CASE("a number that repeats and differs between the ends decides") {
  const auto found = separate({}, {with(1, 7), with(2, 7)}, {with(1.5, 8), with(1, 8)});
  CHECK(found.spreads == std::vector<Spread>{{"loss", 1, 0}, {"reward", 0, 1}});
  CHECK(found.criterion->metrics == std::vector<std::string>{"reward"});
  CHECK(found.criterion->tolerance == 0);
  CHECK_FALSE(found.criterion->bad_from);
}

TEST_CASE("else the number that lies farthest apart in terms of its noise") {
  const std::vector<Measurement> good = {with(1, 7), with(1.25, 8)};
  const auto found = separate({}, good, {with(101.25, 7), with(102.25, 7)});
  CHECK(found.spreads[0] == Spread{"loss", 1, 100});
  CHECK(found.criterion->metrics == std::vector<std::string>{"loss"});
  CHECK(found.criterion->tolerance == 4);
  CHECK(*found.criterion->bad_from == 20);
  CHECK(judge(*found.criterion, good.data(), with(5, 0)).verdict == Verdict::kGood);
  CHECK(judge(*found.criterion, good.data(), with(22, 0)).verdict == Verdict::kBad);
  const auto grey = judge(*found.criterion, good.data(), with(21, 0));
  CHECK(grey.verdict == Verdict::kSkip);
  CHECK(grey.grey);
}

TEST_CASE("a number that repeats brings in none whose name fits its own as a pattern") {
  const auto named = [](double first, double second) {
    return Measurement{.kind = RunKind::kRan,
                       .evidence = Evidence::kMetrics,
                       .metrics = {{"w*", false, {{first}}, {}}, {"wall", false, {{second}}, {}}}};
  };
  const std::vector<Measurement> good = {named(1, 7), named(1, 8)};
  const auto found = separate({}, good, {named(2, 7), named(2, 9)});
  CHECK(found.criterion->metrics == std::vector<std::string>{"w*"});
  CHECK(judge(*found.criterion, good.data(), named(1, 9)).verdict == Verdict::kGood);
}

TEST_CASE("ends that noise covers are not told apart") {
  const auto found = separate({}, {with(1, 7), with(2, 8)}, {with(9, 9), with(10, 10)});
  CHECK_FALSE(found.criterion);
  CHECK_THAT(found.sentence, Contains("no number tells the ends apart: loss lies up to 1 apart"));
  CHECK_THAT(found.sentence, Contains("at least 7 between the ends"));
  CHECK_FALSE(
      separate({.metrics = {"reward"}}, {with(1, 7), with(2, 8)}, {with(500, 9)}).criterion);
}

TEST_CASE("noise within the tolerance is none") {
  const auto found =
      separate({.tolerance = 1.5}, {with(1, 7), with(2, 7)}, {with(9, 7), with(9, 7)});
  CHECK(found.criterion->metrics == std::vector<std::string>{"loss", "reward"});
  CHECK(found.criterion->tolerance == 1.5);
}

TEST_CASE("texts and numbers that are none have no distance") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(separate({}, {with(1, 0), with(nan, 0)}, {with(nan, 0), with(nan, 0)}).criterion);
  const auto zeros = separate({}, {with(1, 0.0), with(1, -0.0)}, {with(1, 0), with(1, 0)});
  CHECK(zeros.spreads[1].floor > 0);
}

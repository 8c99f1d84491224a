#include "src/replay/measure/judgement.h"

#include <catch2/catch.hpp>

#include "src/replay/measure/measurement.h"

using namespace rlreplay::measure;
using Catch::Matchers::Contains;

namespace {

Measurement exited(int code) {
  return {.kind = code >= 126 ? RunKind::kCrashed : RunKind::kRan,
          .problem = code >= 126 ? "the run exited" : "",
          .exit_code = code,
          .evidence = code >= 126 ? Evidence::kNone : Evidence::kExitCode};
}

Measurement with_loss(double loss, int code = 0) {
  return {.kind = RunKind::kRan,
          .exit_code = code,
          .evidence = Evidence::kMetrics,
          .metrics = {{"loss", false, {{loss}}, {}}}};
}

}  // namespace

TEST_CASE("exit codes from 1 to 124 are bad, and those of a crash are skipped unless named") {
  const Measurement good = exited(0);
  for (const int code : {1, 2, 7, 124}) {
    CHECK(judge({}, &good, exited(code)).verdict == Verdict::kBad);
  }
  for (const int code : {126, 127, 134, 137}) {
    CHECK(judge({}, &good, exited(code)).verdict == Verdict::kSkip);
    CHECK(judge({.bad_exits = {code}}, &good, exited(code)).verdict == Verdict::kBad);
  }
  CHECK_THAT(judge({}, &good, exited(127)).reason, Contains("git bisect run would call this bad"));
  CHECK_THAT(judge({}, &good, exited(139)).reason, !Contains("git"));
  CHECK(judge({}, &good, {.kind = RunKind::kCannotSay}).verdict == Verdict::kSkip);
  CHECK(judge({}, &good, {.kind = RunKind::kHung}).verdict == Verdict::kSkip);
}

TEST_CASE(
    "numbers decide where they are left, and an exit code that contradicts them is no verdict") {
  const Measurement good = with_loss(1);
  CHECK(judge({}, nullptr, good).verdict == Verdict::kGood);
  CHECK(judge({}, nullptr, with_loss(1, 1)).verdict == Verdict::kBad);
  CHECK(judge({}, &good, with_loss(1)).verdict == Verdict::kGood);
  CHECK(judge({}, &good, with_loss(2)).verdict == Verdict::kBad);
  CHECK(judge({}, &good, with_loss(2, 3)).verdict == Verdict::kBad);
  CHECK(judge({}, &good, with_loss(1, 3)).verdict == Verdict::kSkip);
  const Judgement odd = judge({}, &good, exited(3));
  CHECK(odd.verdict == Verdict::kSkip);
  CHECK_THAT(odd.reason, Contains("an exit code only (exit code 3) where the reference has"));
}

TEST_CASE("a second run with another exit code is no repetition") {
  CHECK(judge_repetition({}, exited(1), exited(1)).verdict == Verdict::kGood);
  CHECK(judge_repetition({}, exited(1), exited(2)).verdict == Verdict::kBad);
  CHECK(judge_repetition({}, exited(0), exited(137)).verdict == Verdict::kSkip);
  CHECK(judge_repetition({}, with_loss(1), with_loss(1)).verdict == Verdict::kGood);
  CHECK(judge_repetition({}, with_loss(1), with_loss(3)).verdict == Verdict::kBad);
}

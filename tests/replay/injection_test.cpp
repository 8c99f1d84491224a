#include "src/replay/rerun/injection.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/base/same_value.h"
#include "tests/replay/planted.h"

using namespace rlreplay;
using namespace rlreplay::replay;
using namespace rlreplay::replay::test;
using Catch::Matchers::Contains;

namespace {

/// What planting it in the Qwen2 scenario says.
std::string refusal(const std::string& text) {
  static const Recorded undisturbed = [] {
    Scenario s;
    s.record = {};
    return record(s);
  }();
  try {
    Scenario s;
    s.record = {};
    record_planted(s, parse_injection(text), undisturbed.samples);
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::kUsage);
    return error.what();
  }
  return "planted";
}

}  // namespace

TEST_CASE("ulps count the numbers between") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  REQUIRE(add_ulps(1.0f, 1) == 1.0f + 0x1p-23f);
  REQUIRE(add_ulps(1.0f, -1) == 1.0f - 0x1p-24f);
  REQUIRE(add_ulps(-1.0f, 1) == -1.0f + 0x1p-24f);
  REQUIRE(add_ulps(0.0f, -1) == -kTiny);
  REQUIRE(add_ulps(-0.0f, 1) == kTiny);
  REQUIRE(add_ulps(-kTiny, 2) == kTiny);
  REQUIRE(!add_ulps(std::numeric_limits<float>::max(), 1));
  REQUIRE(!add_ulps(1.0f, INT64_MAX));
  REQUIRE(!add_ulps(std::nanf(""), 1));
  REQUIRE(add_ulps(1.0, 3) == 1.0 + 3 * 0x1p-52);
  REQUIRE(ulp_distance(1.0f, 1.0f + 0x1p-22f) == 2);
  REQUIRE(ulp_distance(kTiny, -kTiny) == -2);
  REQUIRE(ulp_distance(std::numeric_limits<float>::max(), kInfinity) == 1);
  REQUIRE(!ulp_distance(-std::numeric_limits<double>::max(), std::nan("")));
  for (const float x : {0.0f, 1.5f, -3e-41f, 7e30f}) {
    for (const int64_t n : {-70000, -1, 1, 3, 99999}) {
      REQUIRE(ulp_distance(x, *add_ulps(x, n)) == n);
    }
  }
}

TEST_CASE("an injection is written EVENT:INDEX:ULPS@RANK") {
  const Injection got = parse_injection("3.0/backward/1/down/dx:17:-4@2");
  REQUIRE(got.at == engine::parse_step_event("3.0/backward/1/down/dx"));
  REQUIRE(got.rank == 2);
  REQUIRE(got.index == 17);
  REQUIRE(got.ulps == -4);
  for (const char* text : {"3.0/backward/1/down/dx:17:-4@2", "0.1/clip/-/clip/norm:0:1",
                           "9.0/reduce/0/gradient/model.layers.0.mlp.up_proj.weight:12:7"}) {
    REQUIRE(to_string(parse_injection(text)) == text);
  }
}

TEST_CASE("an injection that cannot be is refused with what could be") {
  CHECK_THAT(refusal("3.0/forward/0/down/y"), Contains("lacks"));
  CHECK_THAT(refusal("3.0/forward/0/down/y:1"), Contains("lacks"));
  CHECK_THAT(refusal("3.0/forward/0/down/y:x:1"), Contains("`x` is no index"));
  CHECK_THAT(refusal("3.0/forward/0/down/y:-1:1"), Contains("from 0"));
  CHECK_THAT(refusal("3.0/forward/0/down/y:1:0"), Contains("no difference"));
  CHECK_THAT(refusal("3.0/forward/0/down/y:1:1.5"), Contains("no number of ulps"));
  CHECK_THAT(refusal("3.0/forward/0/down/y:1:1@x"), Contains("no rank"));
  CHECK_THAT(refusal("3.0/forward/0/down/y:1:1@1"), Contains("one rank, 0"));
  CHECK_THAT(refusal("3.0/forward/2/down/y:1:1"), Contains("the layers 0 to 1"));
  CHECK_THAT(refusal("3.0/forward/0/dawn/y:1:1"), Contains("has no operation"));
  CHECK_THAT(refusal("3.0/forward/0/qk_norm/q:1:1"), Contains("no query and key norms"));
  CHECK_THAT(refusal("3.0/reduce/-/gradient/lm_head.weight:1:1"), Contains("no parameter"));
  CHECK_THAT(refusal("3.0/forward/-/batch/token:1:1"), Contains("given or drawn"));
  CHECK_THAT(refusal("3.0/reduce/-/gradient/model.norm.weight:72:1"),
             Contains("[1, 72]") && Contains("0 to 71"));
  CHECK_THAT(refusal("3.0/clip/-/clip/norm:1:1"), Contains("0 to 0"));
  CHECK_THAT(refusal("3.0/clip/-/clip/scale:0:3000000000"), Contains("no finite number"));
  CHECK_THAT(refusal("3.0/objective/-/scale/scale:0:200"), Contains("out of its range"));
  CHECK(refusal("3.0/objective/-/scale/scale:0:1") == "planted");
  CHECK(refusal("3.0/forward/0/down/y:0:1") == "planted");
}

TEST_CASE("a difference is planted in its step only") {
  Scenario s;
  const Recorded undisturbed = record(s);
  const Disturbed disturbed =
      record_planted(s, parse_injection("4.0/forward/0/down/y:0:1"), undisturbed.samples);
  REQUIRE(!disturbed.planted);
  REQUIRE(whole(disturbed.recorded) == whole(undisturbed));
}

TEST_CASE("indices count the rows that an event has") {
  const std::vector<engine::SampleShape> samples{{9, 2, 5}, {4, 1, 3}, {6, 4, 4}};
  const auto rows = [&](const char* event) {
    return engine::event_rows(*find_event(engine::parse_event(event)), samples);
  };
  using engine::RowSet;
  REQUIRE((rows("forward/0/down/y") == RowSet{{4, 0, 3}, {6, 0, 4}, {9, 0, 5}}));
  REQUIRE((rows("backward/0/down/dx") == RowSet{{4, 0, 3}, {6, 0, 4}, {9, 0, 5}}));
  REQUIRE((rows("rollout/0/down/y") == RowSet{{4, 0, 2}, {6, 0, 3}, {9, 0, 4}}));
  REQUIRE((rows("rollout/-/sample/log_prob") == RowSet{{4, 1, 2}, {9, 2, 3}}));
  REQUIRE((rows("objective/-/terms/c") == RowSet{{4, 1, 2}, {9, 2, 3}}));
  const RowSet response = rows("forward/-/log_prob/entropy");
  REQUIRE(row_count(response) == 5);
  REQUIRE((*row_at(response, 3) == engine::Element{9, 3, 0}));
  REQUIRE(index_of(response, 9, 3) == 3);
  REQUIRE(index_of(response, 9, 1) == -1);
  REQUIRE(!row_at(response, 5));
}

TEST_CASE("the rows that an index counts are those that are recorded") {
  const Recorded got = record(Scenario());
  const auto shapes = engine::sample_shapes(got.samples);
  for (const engine::StepEvents* events : {&got.rollout, &got.step}) {
    for (const engine::EventRecord& r : events->events) {
      if (r.row_set < 0) continue;
      CAPTURE(to_string(r.event));
      REQUIRE(events->row_sets[static_cast<size_t>(r.row_set)] ==
              event_rows(*find_event(r.event), shapes));
    }
  }
}

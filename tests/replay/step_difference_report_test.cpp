#include "src/replay/compare/step_difference_report.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "src/base/json_value.h"
#include "tests/replay/planted.h"

using namespace rlreplay;
using namespace rlreplay::replay;
using namespace rlreplay::replay::test;
using Catch::Matchers::Contains;

namespace {

struct Compared {
  Injection injection;
  Disturbed disturbed;
  StepDifference difference;
};

Compared compared(const char* injection, const char* record_options) {
  Scenario s;
  s.record = engine::parse_record_options(record_options);
  const Recorded undisturbed = record(s);
  Compared out{parse_injection(injection), {}, {}};
  out.disturbed = record_planted(s, out.injection, undisturbed.samples);
  out.difference = compare_steps(whole(undisturbed), whole(out.disturbed.recorded));
  return out;
}

}  // namespace

TEST_CASE("the report names place, values, distance and what shows it again") {
  const Compared c = compared("3.0/forward/0/swiglu/y:1234:-3000000", "ops+values");
  ReportOptions all;
  all.length = ReportLength::kAll;
  const std::string text =
      step_difference_report(c.difference, "dump a", "dump b", "rlreplay diff x y", all);
  INFO(text);
  CHECK_THAT(text, Contains("first difference: 3.0/forward/0/swiglu/y\n"));
  // 100 columns a row, 12 rows before it.
  const engine::Element& at = c.disturbed.planted->element;
  CHECK(at.column == 34);
  CHECK_THAT(text, Contains("sample " + std::to_string(at.sample) + ", token " +
                            std::to_string(at.row) + ", column 34 (index 1234), rank 0"));
  // So many ulps say less than the difference and its share.
  CHECK_THAT(text, Contains(" of it\n") && !Contains("ulps down"));
  CHECK_THAT(text, Contains("agree: the difference begins here"));
  CHECK_THAT(text, Contains(c.difference.origin->value->a.text()));
  CHECK_THAT(text, Contains("forward/0/swiglu/y") && Contains("1 row, 1 element\n"));
  CHECK_THAT(text, Contains("floats by distance") && !Contains(" more ("));
  // Of the histogram no row is empty; it has gaps, the planted difference being far from the rest.
  size_t at_row = text.find("floats by distance:\n") + 20;
  int gaps = 0;
  for (size_t end; text[at_row] == ' ' && text[at_row + 2] == ' '; at_row = end + 1) {
    end = text.find('\n', at_row);
    const std::string row = text.substr(at_row, end - at_row);
    gaps += row == "    ...";
    CHECK((row == "    ..." || row.ends_with("#")));
  }
  CHECK(gaps > 0);
  CHECK(text.ends_with("rlreplay diff x y\n"));
  CHECK(step_difference_report({}, "a", "b", "x") == "no difference\n");
  const std::string brief = step_difference_report(c.difference, "a", "b", "x");
  CHECK_THAT(brief, Contains(" more (--all lists them)\n") && !Contains("floats by distance"));
  CHECK(std::ranges::count(brief, '\n') <= 20);
}

TEST_CASE("causes come before the event, and say whether data differ") {
  const Compared c = compared("3.0/objective/-/targets/advantage:0:1", "ops+values");
  ReportOptions options;
  options.causes = {{"options", "lr: 1e-04 -> 2e-04"}, {"options", "seed: 1 -> 2"}};
  const std::string text = step_difference_report(c.difference, "a", "b", "x", options);
  CHECK_THAT(text, Contains("  options     lr: 1e-04 -> 2e-04\n              seed: 1 -> 2\n"));
  CHECK_THAT(text, Contains("it is given to the step"));
  CHECK(text.find("options") < text.find("where"));
  options.causes.push_back({"data", "rewards: rollout 3, sample 0: 0 -> 1"});
  CHECK_THAT(step_difference_report(c.difference, "a", "b", "x", options),
             Contains("were given different data"));
  const JsonDocument json = JsonDocument::parse(to_json(c.difference, options), "diff");
  CHECK(json.root()["causes"].at(2)["kind"].string() == "data");
}

TEST_CASE("the JSON of a difference carries the bits") {
  const Compared c =
      compared("3.0/reduce/0/gradient/model.layers.0.mlp.up_proj.weight:777:5", "ops+values");
  const JsonDocument json = JsonDocument::parse(to_json(c.difference), "diff");
  CHECK(json.root()["schema"].string() == "rlreplay.replay.diff/1");
  CHECK(!json.root()["identical"].boolean());
  const JsonValue origin = json.root()["origin"];
  CHECK(origin["event"].string() == "3.0/reduce/0/gradient/model.layers.0.mlp.up_proj.weight");
  CHECK(origin["phase"].string() == "reduce");
  CHECK(origin["layer"].integer(0, 9) == 0);
  CHECK(origin["op"].string() == "gradient");
  CHECK(origin["index"].integer(0, 9999) == 777);
  CHECK(!origin.find("sample"));
  CHECK(origin["ulps"].integer(-9, 9) == 5);
  const int64_t a = origin["a"].integer(INT64_MIN, INT64_MAX);
  CHECK(origin["b"].integer(INT64_MIN, INT64_MAX) == a + 5);
  CHECK(std::stoull(origin["a_bits"].string(), nullptr, 16) == static_cast<uint64_t>(a));
  CHECK(origin["inputs_equal"].boolean());
  CHECK(origin["class"].string() == "origin");
  CHECK(json.root()["fields"].size() == c.difference.events.size());
  const JsonValue field = json.root()["fields"].at(0);
  CHECK(field["elements"].integer(1, 1) == 1);
  CHECK(JsonDocument::parse(to_json({}), "diff").root()["identical"].boolean());
}

TEST_CASE("without values element and numbers are null") {
  const Compared c = compared("3.0/backward/0/qkv/dx:100:100000", "tensors");
  const JsonDocument json = JsonDocument::parse(to_json(c.difference), "diff");
  const JsonValue origin = json.root()["origin"];
  for (const char* key : {"index", "a", "b", "ulps"}) CHECK(!origin.find(key));
  CHECK(origin["event"].string() == "3.0/backward/0/input_norm/dx");
  CHECK(origin["sample"].integer(0, 99) == 40);
  CHECK(origin["token"].integer(0, 99) == 1);
  CHECK(origin["class"].string() == "interval");
  const std::string text = step_difference_report(c.difference, "a", "b", "x");
  CHECK_THAT(text, Contains("were not recorded") && Contains("sample 40, token 1, rank 0"));
}

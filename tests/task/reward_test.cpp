#include "src/task/reward.h"

#include <catch2/catch.hpp>

#include "src/task/final_number.h"
#include "tests/task/support.h"
#include "tests/task/word_problems.h"

using namespace rlreplay;
using namespace rlreplay::test;
using Catch::Matchers::Contains;
using Kind = RewardOptions::Kind;

namespace {

double score_one(Kind kind, std::string_view response, std::optional<std::string_view> label) {
  const RewardQuery query{"prompt", response, label, "file:1"};
  return make_reward({kind, "", std::chrono::seconds(1)})->score({&query, 1}).at(0);
}

/// The final number as a decimal or a/b; "none" where there is none.
std::string final_of(std::string_view text) {
  const auto number = final_number(text);
  if (!number) return "none";
  const std::string sign = number->negative ? "-" : "";
  return sign + number->numerator + (number->denominator == "1" ? "" : "/" + number->denominator);
}

std::vector<double> by_command(const std::string& command, size_t count,
                               std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  std::vector<RewardQuery> queries;
  for (size_t i = 0; i < count; ++i) queries.push_back({"p\n\"q\"", "r", std::nullopt, "f:1"});
  return make_reward({Kind::kCommand, command, limit})->score(queries);
}

Error command_error(const std::string& command,
                    std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto error = error_of([&] { by_command(command, 3, limit); });
  REQUIRE(error);
  CHECK(error->where() == command);
  return *error;
}

}  // namespace

TEST_CASE("exact: white space around does not count") {
  CHECK(score_one(Kind::kExact, " 85\n", "85") == 1);
  CHECK(score_one(Kind::kExact, "85", "\t85 ") == 1);
  CHECK(score_one(Kind::kExact, "8 5", "85") == 0);
  CHECK(score_one(Kind::kExact, "085", "85") == 0);
  CHECK(score_one(Kind::kExact, "", "85") == 0);
  CHECK(score_one(Kind::kExact, "", " ") == 1);
}

TEST_CASE("the final number is that of the last mark, and without one the last of the text") {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "none"},
      {"no digits", "none"},
      {"The answer is 42.", "42"},
      {"first 3, then 42", "42"},
      {"#### 42", "42"},
      {"####42", "42"},
      {"#### 42\nMore: 7", "42"},
      {"#### 1\n#### 2", "2"},
      {"#### Step 1\nso 42", "42"},
      {"**#### $1,234.50**", "123450/100"},
      {"#### -5", "-5"},
      {"#### -$5", "-5"},
      {"#### $-5", "-5"},
      {"\\boxed{42}", "42"},
      {"\\boxed{42} apples, 7 pears", "42"},
      {"\\boxed{1} and \\boxed{2}", "2"},
      {"\\boxed{\\text{about } 42\\text{ m}^2}", "2"},
      {"\\boxed{\\frac{3}{4}}", "3/4"},
      {"\\boxed{-\\dfrac{3}{4}}", "-3/4"},
      {"\\boxed{\\boxed{5}}", "5"},
      {"\\boxed{12{,}345}", "12345"},
      {"\\boxed{\\$9}", "9"},
      {"\\boxed{} so 8", "8"},
      {"\\boxed{x = 3", "3"},
      {"\\boxed{3} #### 4", "4"},
      {"#### 4 \\boxed{3}", "3"},
      {"1,234,567", "1234567"},
      {"1,23", "23"},
      {"1234,567", "567"},
      {"in 2023, 500 were left", "500"},
      {"1,2345", "2345"},
      {"3.14", "314/100"},
      {".5", "5/10"},
      {"-.5", "-5/10"},
      {"-0", "0"},
      {"007", "7"},
      {"5-3", "3"},
      {"x-3", "3"},
      {"(1)-3", "3"},
      {"= -3", "-3"},
      {"=-3", "-3"},
      {"\xe2\x88\x92"
       "3",
       "-3"},
      {"+3", "3"},
      {"3/4", "3/4"},
      {"3/0", "0"},
      {"48/2=24", "24"},
      {"50%", "50"},
      {"\xe2\x82\xac"
       "5",
       "5"},
      {"5. 6.", "6"},
  };
  for (const auto& [text, wanted] : kCases) {
    INFO(text);
    CHECK(final_of(text) == wanted);
  }
}

TEST_CASE("gsm8k: numbers are compared by value") {
  CHECK(score_one(Kind::kGsm8k, "so it is 1,200.00", "text #### 1200") == 1);
  CHECK(score_one(Kind::kGsm8k, "0.75", "3/4") == 1);
  CHECK(score_one(Kind::kGsm8k, "\\boxed{\\frac{6}{8}}", "0.750") == 1);
  CHECK(score_one(Kind::kGsm8k, "-0.0", "0") == 1);
  CHECK(score_one(Kind::kGsm8k, "-5", "5") == 0);
  CHECK(score_one(Kind::kGsm8k, "1200.001", "1200") == 0);
  CHECK(score_one(Kind::kGsm8k, "I do not know", "5") == 0);
  // Neither binary64 nor 64-bit integers tell these apart.
  CHECK(score_one(Kind::kGsm8k, "100000000000000000001", "100000000000000000000") == 0);
  CHECK(score_one(Kind::kGsm8k, "100000000000000000001.0", "100000000000000000001") == 1);
  const std::string endless(1 << 20, '7');
  CHECK(score_one(Kind::kGsm8k, endless, "7") == 0);
  CHECK(score_one(Kind::kGsm8k, endless, endless) == 1);
}

TEST_CASE("gsm8k: word problems judge their own solutions") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto problem = word_problem(seed);
    const std::string result = std::to_string(problem.result);
    CHECK(score_one(Kind::kGsm8k, problem.answer, problem.answer) == 1);
    CHECK(score_one(Kind::kGsm8k, "There are " + result + ".", problem.answer) == 1);
    CHECK(score_one(Kind::kGsm8k, "\\boxed{" + result + ".0}", problem.answer) == 1);
    CHECK(score_one(Kind::kGsm8k, "#### " + std::to_string(problem.result + 1), problem.answer) ==
          0);
  }
}

TEST_CASE("markers without end cost no more than their length") {
  std::string boxes, hashes, fractions = "\\boxed{";
  for (int i = 0; i < 200'000; ++i) {
    boxes += "\\boxed{";
    hashes += "####";
    fractions += "\\frac{";
  }
  CHECK(final_of(boxes) == "none");
  CHECK(final_of(hashes) == "none");
  CHECK(final_of(fractions) == "none");
  CHECK(final_of(std::string(1 << 20, '-') + "1") == "-1");
}

TEST_CASE("rewards that compare need a label they can read") {
  for (const Kind kind : {Kind::kExact, Kind::kGsm8k}) {
    const auto error = error_of([&] { score_one(kind, "5", std::nullopt); });
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::kCorrupt);
    CHECK(error->where() == "file:1");
    CHECK_THAT(error->what(), Contains("--label-key"));
  }
  CHECK_THAT(error_of([] { score_one(Kind::kGsm8k, "5", "five"); })->what(),
             Contains("holds none"));
}

TEST_CASE("rewards have names") {
  CHECK(reward_kind("exact") == Kind::kExact);
  CHECK(reward_kind("gsm8k") == Kind::kGsm8k);
  CHECK(reward_kind("command") == Kind::kCommand);
  CHECK(error_of([] { reward_kind("gsm"); })->code() == ErrorCode::kUsage);
  CHECK(error_of([] { make_reward({Kind::kCommand, "", {}}); })->code() == ErrorCode::kUsage);
}

TEST_CASE("command: a line in, a number out") {
  CHECK(by_command("while read -r line; do echo 0.5; done", 3) ==
        std::vector<double>{0.5, 0.5, 0.5});
  CHECK(by_command("printf '+1\\r\\n -2.5e-1 \\n0'", 3) == std::vector<double>{1, -0.25, 0});
  CHECK(by_command("exit 1", 0).empty());
  // The line is JSON with the texts as they are.
  const RewardQuery query{"a\"b\n", "\xff", std::string_view("7"), "f:1"};
  const std::string wanted = R"({"prompt": "a\"b\n", "response": "�", "label": "7"})";
  const std::string command = "read -r line; test \"$line\" = '" + wanted + "' && echo 1";
  CHECK(make_reward({Kind::kCommand, command, std::chrono::seconds(60)})->score({&query, 1}) ==
        std::vector<double>{1});
}

TEST_CASE("command: death, silence and nonsense are errors") {
  const auto died = command_error("echo 1; echo broken >&2; exit 9");
  CHECK(died.code() == ErrorCode::kEnvironment);
  CHECK_THAT(died.what(), Contains("exited with code 9: broken"));
  CHECK_THAT(command_error("kill -KILL $$").what(), Contains("signal 9"));
  CHECK_THAT(command_error("rlreplay-no-such-command").what(), Contains("code 127"));
  CHECK_THAT(command_error("sleep 1000", std::chrono::milliseconds(100)).what(),
             Contains("time limit"));
  CHECK_THAT(command_error("yes 1").what(), Contains("far more"));
  for (const char* output : {"1\\n2\\n", "1\\n2\\n3\\n4\\n", ""}) {
    const auto error = command_error(std::string("printf '") + output + "'");
    CHECK(error.code() == ErrorCode::kCorrupt);
    CHECK_THAT(error.what(), Contains("numbers for 3 responses"));
  }
  for (const char* line : {"one", "", "nan", "inf", "1 2", "1,5", "0x1p3", "--1", "1e999"}) {
    const auto error = command_error(std::string("printf '1\\n") + line + "\\n3\\n'");
    CHECK(error.code() == ErrorCode::kCorrupt);
    CHECK_THAT(error.what(), Contains(std::string("line 2 is \"") + line + "\""));
  }
}

#include <catch2/catch.hpp>
#include <map>

#include "src/task/demo_task.h"
#include "src/task/reward.h"
#include "tests/task/support.h"

using namespace rlreplay;
using namespace rlreplay::test;

TEST_CASE("the demo's tokenizer reads its own texts and no others") {
  const Tokenizer tokenizer = demo_tokenizer();
  CHECK(tokenizer.size() == 16);
  CHECK(tokenizer.encode("37+48=85\n 6") ==
        std::vector<TokenId>{3, 7, 10, 4, 8, 11, 8, 5, 13, 12, 6});
  CHECK(tokenizer.encode("1<|end|>", AddSpecial::kYes) == std::vector<TokenId>{15, 1, 14});
  CHECK(tokenizer.decode(tokenizer.encode("37+48=85\n 6")) == "37+48=85\n 6");
  CHECK(error_of([&] { tokenizer.encode("1*2"); })->code() == ErrorCode::kUnsupported);
}

TEST_CASE("the demo's problems are fixed by seed and index") {
  const std::pair<uint64_t, const char*> kFirst[] = {{0, "33+26="}, {1, "43+42="}};
  for (const auto& [seed, text] : kFirst) {
    CHECK(std::get<std::string>(demo_prompt({seed, 99}, 0).input) == text);
  }
  const DemoTask task{7, 20};
  const Prompt ninth = demo_prompt(task, 9);
  for (uint64_t i = 0; i < 9; ++i) demo_prompt(task, i);
  CHECK(std::get<std::string>(demo_prompt(task, 9).input) == std::get<std::string>(ninth.input));
  CHECK(ninth.where == "demo:9");
  CHECK(error_of([] { demo_prompt({0, -1}, 0); })->code() == ErrorCode::kUsage);
  CHECK(error_of([] { demo_prompt({0, 1'000'000'001}, 0); })->code() == ErrorCode::kUsage);
}

TEST_CASE("the demo's problems cover their range evenly, with right labels") {
  const int64_t max = 9, count = 20'000;
  std::map<int64_t, int> first, second;
  for (int64_t i = 0; i < count; ++i) {
    const Prompt prompt = demo_prompt({3, max}, static_cast<uint64_t>(i));
    const auto& text = std::get<std::string>(prompt.input);
    const int64_t a = std::stoll(text), b = std::stoll(text.substr(text.find('+') + 1));
    ++first[a];
    ++second[b];
    REQUIRE(text == std::to_string(a) + "+" + std::to_string(b) + "=");
    REQUIRE(prompt.label == std::to_string(a + b));
  }
  for (const auto* counts : {&first, &second}) {
    REQUIRE(counts->size() == 10);
    for (const auto& [number, seen] : *counts) {
      CHECK(number <= max);
      CHECK(std::abs(seen - count / 10) < 200);  // 4.7 standard deviations
    }
  }
  CHECK(demo_prompt({0, 0}, 5).label == "0");
}

TEST_CASE("an example is prompt, answer and end, and the answer earns the reward") {
  const Tokenizer tokenizer = demo_tokenizer();
  const Prompt prompt = demo_prompt({1, 99}, 3);
  const DemoExample example = demo_example(tokenizer, prompt);
  CHECK(example.ids.front() == *tokenizer.find("<|start|>"));
  CHECK(example.ids.back() == *tokenizer.find(kDemoEnd));
  CHECK(tokenizer.decode(example.ids, ShowSpecial::kNo) ==
        std::get<std::string>(prompt.input) + *prompt.label);
  const std::vector<TokenId> answer(
      example.ids.begin() + static_cast<std::ptrdiff_t>(example.prompt_length), example.ids.end());
  const std::string response = tokenizer.decode(answer, ShowSpecial::kNo);
  const RewardQuery query{"", response, *prompt.label, prompt.where};
  CHECK(make_reward({})->score({&query, 1}) == std::vector<double>{1});
}

#include <catch2/catch.hpp>
#include <random>
#include <sstream>

#include "src/task/demo_task.h"
#include "src/task/prompts.h"
#include "tests/task/support.h"
#include "tests/task/word_problems.h"

using namespace rlreplay;
using namespace rlreplay::test;

namespace {

// What turns up where files are made by hand or by attackers.
const char* const kFragments[] = {"null",
                                  "-1",
                                  "4294967296",
                                  "1e308",
                                  "\"\"",
                                  "[]",
                                  "{}",
                                  "[[[[",
                                  "}",
                                  "\\u0000",
                                  "\\ud800",
                                  "\"type\": \"Sequence\", ",
                                  "true",
                                  "\xff",
                                  "\xf0\x9f\x98\x80",
                                  "\\u0120",
                                  ",",
                                  ":",
                                  "\"",
                                  "\n",
                                  "\"lstrip\": true, ",
                                  "\"rstrip\": true, ",
                                  "\"single_word\": true, ",
                                  "\"normalized\": true, "};

/// Changes a text in one to four places: bytes replaced, parts removed, doubled or swapped, and
/// fragments put in.
class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (size_t count = 1 + below(4); count > 0 && !text.empty(); --count) mutate(text);
    return text;
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }

  void mutate(std::string& text) {
    const size_t at = below(text.size()), length = 1 + below(below(4) == 0 ? 200 : 8);
    const std::string part = text.substr(at, length);
    switch (below(6)) {
      case 0:
        text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, part);
        break;
      case 3:
        text.erase(at, length);
        text.insert(below(text.size() + 1), part);
        break;
      case 4:
        text.insert(at, kFragments[below(std::size(kFragments))]);
        break;
      default:
        change_token(text, at);
    }
  }

  /// Replaces a number or a word of the file, so that its JSON stays valid more often.
  void change_token(std::string& text, size_t at) {
    const size_t begin = text.find_first_of("0123456789tfn\"", at);
    if (begin == text.npos) return;
    const size_t end = text.find_first_of(",:}] ", begin + 1);
    if (end == text.npos) return;
    text.replace(begin, end - begin, kFragments[below(10)]);
  }

  std::mt19937 random_;
};

/// What a mutated tokenizer makes of a text must come back, and nothing may crash.
void use(const Tokenizer& tokenizer) {
  for (const char* text :
       {"The baker sold 24 rolls.  He'll <|end|> 1234\n\n", "caf\u00e9!\u3000x"}) {
    try {
      const auto ids = tokenizer.encode(text, AddSpecial::kYes);
      for (const TokenId id : ids) REQUIRE((id >= 0 && id < tokenizer.size()));
      StreamDecoder stream(tokenizer);
      std::string parts;
      for (const TokenId id : ids) parts += stream.push(id);
      REQUIRE(parts + stream.finish() == tokenizer.decode(ids));
    } catch (const Error& e) {
      REQUIRE(e.code() != ErrorCode::kInternal);
    }
  }
}

/// Runs `read`, which may throw an Error that is somebody else's fault; returns whether it did not.
template <class Read>
bool survives(const std::string& text, const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& e) {
    INFO(text.substr(0, 2000));
    REQUIRE(e.code() != ErrorCode::kInternal);
    REQUIRE_FALSE(std::string(e.what()).empty());
    return false;
  }
}

}  // namespace

TEST_CASE("a mutated tokenizer.json is refused or works") {
  const std::string originals[] = {demo_tokenizer_json(),
                                   read_text(data_path("llama3.tokenizer.json")),
                                   read_text(data_path("qwen3.tokenizer.json"))};
  Mutator mutate(2024);
  int accepted = 0;
  const int count = repetitions(1000);
  for (int i = 0; i < count; ++i) {
    const std::string text = mutate(originals[i % 3]);
    accepted += survives(
        text, [&] { use(Tokenizer(parse_tokenizer_spec(JsonDocument::parse(text, "mutated")))); });
  }
  INFO("accepted " << accepted << " of " << count);
  CHECK(accepted > count / 50);  // mutations that break every file would prove nothing
  CHECK(accepted < count / 2);
}

TEST_CASE("mutated prompts are refused or read") {
  std::string original = R"({"messages": [{"role": "user", "content": "hi"}], "label": 7})"
                         "\n"
                         R"({"prompt_token_ids": [3, 1, 4], "label": "a"})"
                         "\n";
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const auto problem = word_problem(seed);
    original += "{\"question\": " + json_quoted(problem.question) +
                ", \"answer\": " + json_quoted(problem.answer) + "}\n";
  }
  Mutator mutate(2025);
  int accepted = 0;
  const int count = repetitions(1000);
  for (int i = 0; i < count; ++i) {
    const std::string text = mutate(original);
    accepted += survives(text, [&] {
      PromptReader reader(std::make_unique<std::istringstream>(text), "mutated", {});
      while (reader.next()) {
      }
    });
  }
  INFO("accepted " << accepted << " of " << count);
  CHECK(accepted > count / 50);
  CHECK(accepted < count * 9 / 10);
}

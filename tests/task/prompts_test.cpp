#include "src/task/prompts.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "tests/task/support.h"
#include "tests/task/word_problems.h"

using namespace rlreplay;
using namespace rlreplay::test;
using Catch::Matchers::Contains;

namespace {

/// A file in the system's folder for temporary files, gone at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_((std::filesystem::temp_directory_path() /
               ("rlreplay_prompts_" + std::to_string(::getpid()) + ".jsonl"))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("text, messages and ids are told apart by their type") {
  const TemporaryFile file(
      "\xef\xbb\xbf{\"text\": \"a\\u00e9\", \"label\": 7}\r\n"
      "\n  \t\r\n"
      R"({"messages": [{"role": "user", "content": "hi"}], "label": null})"
      "\n"
      R"({"prompt": "x", "prompt_token_ids": [3, 1], "answer": "forty"})");
  const auto prompts = read_prompts(file.path());
  REQUIRE(prompts.size() == 3);
  CHECK(std::get<std::string>(prompts[0].input) == "a\xc3\xa9");
  CHECK(prompts[0].label == "7");
  CHECK(prompts[0].where == file.path() + ":1");
  CHECK(std::get<std::vector<Message>>(prompts[1].input).at(0).content == "hi");
  CHECK_FALSE(prompts[1].label);
  CHECK(std::get<std::vector<TokenId>>(prompts[2].input) == std::vector<TokenId>{3, 1});
  CHECK(prompts[2].label == "forty");
  CHECK(prompts[2].where == file.path() + ":5");
}

TEST_CASE("keys can be named") {
  const TemporaryFile file(R"({"text": "no", "q": [5], "label": "no", "gold": 2.5})");
  PromptOptions options;
  options.input_key = "q";
  options.label_key = "gold";
  const auto prompts = read_prompts(file.path(), options);
  CHECK(std::get<std::vector<TokenId>>(prompts.at(0).input) == std::vector<TokenId>{5});
  CHECK(prompts.at(0).label == "2.5");
  options.label_key = "absent";
  const auto error = error_of([&] { read_prompts(file.path(), options); });
  REQUIRE(error);
  CHECK_THAT(error->what(), Contains("no key \"absent\""));
  CHECK(error->where() == file.path() + ":1");
}

TEST_CASE("a key with dots is one of an object in the line where no key is called so") {
  const TemporaryFile file(
      R"({"a": {"q": "p", "x.y": 3}, "reward_model": {"style": "rule", "ground_truth": "72"}})"
      "\n"
      R"({"a": {"q": "r"}, "reward_model.ground_truth": 5, "reward_model": {"ground_truth": 6}})");
  const auto prompts = read_prompts(file.path(), {"a.q", "reward_model.ground_truth"});
  CHECK(std::get<std::string>(prompts.at(0).input) == "p");
  CHECK(prompts.at(0).label == "72");
  CHECK(std::get<std::string>(prompts.at(1).input) == "r");
  CHECK(prompts.at(1).label == "5");
  const auto error = error_of([&] { read_prompts(file.path(), {"a.q", "a.x.y"}); });
  REQUIRE(error);  // of the second line alone
  CHECK_THAT(error->what(), Contains("no key \"a.x.y\""));
  CHECK(error->where() == file.path() + ":2");
  for (const char* key : {"reward_model.style.x", "a.", ".q", "a..q", "."}) {
    INFO(key);
    CHECK(error_of([&] { read_prompts(file.path(), {"a.q", key}); }));
  }
}

TEST_CASE("grade school math files are read as they are") {
  std::string text;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const auto problem = word_problem(seed);
    text += "{\"question\": " + json_quoted(problem.question) +
            ", \"answer\": " + json_quoted(problem.answer) + "}\n";
  }
  const TemporaryFile file(text);
  const auto prompts = read_prompts(file.path());
  REQUIRE(prompts.size() == 50);
  for (uint32_t seed = 0; seed < 50; ++seed) {
    CHECK(std::get<std::string>(prompts[seed].input) == word_problem(seed).question);
    CHECK(prompts[seed].label == word_problem(seed).answer);
  }
}

TEST_CASE("a bad line is named") {
  struct Bad {
    const char *line, *words;
  };
  const Bad kBad[] = {
      {"{\"text\": ", "not valid JSON"},
      {"[1, 2]", "must be a JSON object"},
      {"{\"prompts\": \"a\"}", "--input-key"},
      {"{\"text\": 5}", "the prompt is 5; text, or a list"},
      {"{\"text\": []}", "not empty"},
      {"{\"text\": [1, -1]}", "an integer from 0"},
      {"{\"text\": [1, \"a\"]}", "an integer from 0"},
      {"{\"text\": [2147483648]}", "an integer from 0"},
      {"{\"messages\": [{\"role\": \"user\"}]}", "\"content\" is missing"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": [1]}]}", "expected a string"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"tool_calls\": []}]}",
       "the key \"tool_calls\"; role and content alone"},
      {"{\"text\": \"\xff\"}", "not valid JSON"},
  };
  for (const Bad& bad : kBad) {
    INFO(bad.line);
    const TemporaryFile file(std::string("{\"text\": \"ok\"}\n") + bad.line + "\n");
    const auto error = error_of([&] { read_prompts(file.path()); });
    REQUIRE(error);
    CHECK_THAT(error->what(), Contains(bad.words));
    CHECK_THAT(error->where(), Contains(file.path() + ":2"));
  }
}

TEST_CASE("long lines are read to the limit and not beyond") {
  const std::string line = "{\"text\": \"" + std::string(200000, 'x') + "\"}";
  const TemporaryFile file("{\"text\": \"a\"}\n" + line + "\n" + line);
  CHECK(read_prompts(file.path()).size() == 3);
  PromptOptions options;
  options.max_line_bytes = line.size() - 1;
  PromptReader reader(file.path(), options);
  CHECK(reader.next());
  const auto error = error_of([&] { reader.next(); });
  REQUIRE(error);
  CHECK_THAT(error->what(), Contains("more than 200011 bytes"));
  CHECK(error->where() == file.path() + ":2");
}

TEST_CASE("files without prompts are refused") {
  for (const char* text : {"", "\n\n", " \r\n"}) {
    const TemporaryFile file(text);
    const auto error = error_of([&] { read_prompts(file.path()); });
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::kIncomplete);
    CHECK_THAT(error->what(), Contains("no prompts"));
  }
  CHECK(error_of([] { read_prompts("/nonexistent.jsonl"); })->code() == ErrorCode::kIncomplete);
  CHECK(error_of([] { read_prompts("/"); })->code() == ErrorCode::kIncomplete);
}

TEST_CASE("prompts become ids") {
  const auto tokenizer = Tokenizer::read(data_path("llama3.tokenizer.json"));
  const ChatTemplate chat(ChatTemplate::Style::kChatMl);
  PromptEncoding encoding;
  encoding.tokenizer = &tokenizer;
  const Prompt text{std::string("replay 12"), std::nullopt, "f:1"};
  const Prompt ids{std::vector<TokenId>{9, 8}, std::nullopt, "f:2"};
  const Prompt messages{std::vector<Message>{{"user", "hi"}}, std::nullopt, "f:3"};
  const Prompt empty{std::string(), std::nullopt, "f:4"};
  CHECK(encode_prompt(text, encoding) == tokenizer.encode("replay 12"));
  CHECK(encode_prompt(ids, encoding) == std::vector<TokenId>{9, 8});
  CHECK(error_of([&] { encode_prompt(messages, encoding); })->code() == ErrorCode::kUsage);
  const auto error = error_of([&] { encode_prompt(empty, encoding); });
  REQUIRE(error);
  CHECK(error->where() == "f:4");

  encoding.add_special = AddSpecial::kYes;
  CHECK(encode_prompt(text, encoding) == tokenizer.encode("replay 12", AddSpecial::kYes));
  encoding.chat = &chat;
  CHECK(encode_prompt(messages, encoding) ==
        tokenizer.encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"));
  encoding.apply_chat_template = true;
  CHECK(encode_prompt(text, encoding) ==
        tokenizer.encode("<|im_start|>user\nreplay 12<|im_end|>\n<|im_start|>assistant\n"));
}

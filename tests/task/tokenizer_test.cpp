#include "src/task/tokenizer.h"

#include <catch2/catch.hpp>

#include "tests/task/support.h"

using namespace rlreplay;
using namespace rlreplay::test;

namespace {

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                     ShowSpecial show) {
  StreamDecoder decoder(tokenizer, show);
  std::string text;
  for (const TokenId id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void check_case(const Tokenizer& tokenizer, const JsonValue& wanted) {
  INFO(wanted.dump());
  const auto ids = ids_of(wanted["ids"]);
  if (const auto text = wanted.find("text")) {
    CHECK(tokenizer.encode(text->string()) == ids);
    CHECK(tokenizer.encode(text->string(), AddSpecial::kYes) == ids_of(wanted["with_special"]));
  }
  CHECK(tokenizer.decode(ids) == wanted["decoded"].string());
  CHECK(tokenizer.decode(ids, ShowSpecial::kNo) == wanted["plain"].string());
  CHECK(streamed(tokenizer, ids, ShowSpecial::kYes) == wanted["decoded"].string());
  CHECK(streamed(tokenizer, ids, ShowSpecial::kNo) == wanted["plain"].string());
}

}  // namespace

TEST_CASE("ids and texts are those of the tokenizers package") {
  for (const std::string name : {"llama3", "qwen3", "digits"}) {
    const auto tokenizer = Tokenizer::read(data_path(name + ".tokenizer.json"));
    const auto lines = read_lines(data_path(name + ".cases.jsonl"));
    REQUIRE(lines.size() > 250);
    for (const auto& line : lines) {
      const auto document = JsonDocument::parse(line, name);
      check_case(tokenizer, document.root());
    }
  }
}

void check_cases(const std::string& folder) {
  const auto tokenizer = Tokenizer::read(folder + "/tokenizer.json");
  const auto document = JsonDocument::read(folder + "/tokenizer_cases.json");
  const auto encode = document.root()["encode"], decode = document.root()["decode"];
  REQUIRE(encode.size() + decode.size() > 70);
  for (size_t i = 0; i < encode.size(); ++i) {
    const auto ids = ids_of(encode.at(i)["ids"]);
    CHECK(tokenizer.encode(encode.at(i)["text"].string()) == ids);
    CHECK(tokenizer.decode(ids) == encode.at(i)["decoded"].string());
  }
  for (size_t i = 0; i < decode.size(); ++i) {
    const auto ids = ids_of(decode.at(i)["ids"]);
    CHECK(tokenizer.decode(ids) == decode.at(i)["text"].string());
    CHECK(streamed(tokenizer, ids, ShowSpecial::kYes) == decode.at(i)["text"].string());
  }
}

TEST_CASE("the cases of a checkpoint's tokenizer") {
  for (const std::string& folder : tokenizer_folders()) check_cases(folder);
}

TEST_CASE("a stream shows a character when it is complete, not before") {
  const auto tokenizer = Tokenizer::read(data_path("llama3.tokenizer.json"));
  const std::string face = "\xf0\x9f\x98\x80";
  StreamDecoder decoder(tokenizer);
  const auto ids = tokenizer.encode(face);
  REQUIRE(ids.size() == 4);
  for (size_t i = 0; i < 3; ++i) CHECK(decoder.push(ids[i]).empty());
  CHECK(decoder.push(ids[3]) == face);
  CHECK(decoder.push(ids[0]).empty());
  CHECK(decoder.finish() == "\xef\xbf\xbd");
  CHECK(decoder.finish().empty());
  CHECK(decoder.push(tokenizer.encode("a")[0]) == "a");
}

TEST_CASE("tokens are found by their spelling") {
  const auto tokenizer = Tokenizer::read(data_path("llama3.tokenizer.json"));
  CHECK(tokenizer.find("<|end|>") == 564);
  CHECK(tokenizer.is_special(564));
  CHECK(tokenizer.find("\xc4\xa0unmerged") == 561);
  CHECK(tokenizer.bytes(561) == " unmerged");
  CHECK_FALSE(tokenizer.is_special(561));
  CHECK_FALSE(tokenizer.find("no such token"));
  CHECK_FALSE(tokenizer.find("\xff"));
  CHECK(tokenizer.size() == 567);
  CHECK(tokenizer.bytes(567).empty());
  CHECK(tokenizer.bytes(-1).empty());
}

TEST_CASE("text that is not UTF-8 is refused with its byte") {
  const auto tokenizer = Tokenizer::read(data_path("llama3.tokenizer.json"));
  for (const char* text : {"abc\xff", "abc\xc3", "abc\xed\xa0\x80", "abc\xc0\x80", "abc\xf5z"}) {
    const auto error = error_of([&] { tokenizer.encode(text); });
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::kCorrupt);
    CHECK(std::string(error->what()) == "the text is not UTF-8 at its byte 3");
  }
}

TEST_CASE("long texts of one kind cost no more than their length") {
  // Each of these takes very long where a merge, a split or a normalization is quadratic.
  const auto tokenizer = Tokenizer::read(data_path("qwen3.tokenizer.json"));
  const size_t count = 1 << 18;
  std::string marks;
  for (size_t i = 0; i < count / 4; ++i) marks += i % 2 ? "\xcc\xa3" : "\xcc\x81";
  for (const std::string& text :
       {std::string(count, 'a'), std::string(count, ' '), std::string(count, '\n'),
        std::string(count, '=') + "x", std::string(count, ' ') + "x", marks}) {
    const auto ids = tokenizer.encode(text);
    CHECK(ids.size() > 1000);
    if (text[0] != '\xcc') CHECK(tokenizer.decode(ids) == text);
  }
}

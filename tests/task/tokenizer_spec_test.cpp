#include "src/task/tokenizer_spec.h"

#include <catch2/catch.hpp>

#include "src/task/tokenizer.h"
#include "tests/task/support.h"

using namespace rlreplay;
using namespace rlreplay::test;
using Catch::Matchers::Contains;

namespace {

/// The smallest file: letters a to d, two merges, one added token.
std::string tiny() {
  return R"({"added_tokens": [{"id": 6, "content": "<e>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "dropout": null, "byte_fallback": false,
      "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "cd": 5},
      "merges": ["a b", "c d"]}})";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

struct Bad {
  const char *from, *to;
  ErrorCode code;
  const char* words;
};

constexpr auto kCorrupt = ErrorCode::kCorrupt;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

const Bad kBad[] = {
    {R"("type": "BPE")", R"("type": "Unigram")", kUnsupported, "model \"Unigram\""},
    {R"("type": "BPE")", R"("type": 7)", kCorrupt, "expected a string, found number"},
    {R"("type": "BPE", )", "", kUnsupported, "BPE is expected"},
    {R"("byte_fallback": false)", R"("byte_fallback": true)", kUnsupported, "byte_fallback"},
    {R"("byte_fallback": false)", R"("fuse_unk": "##")", kCorrupt, "expected true or false"},
    {R"("byte_fallback": false)", R"("fuse_unk": 1.0)", kCorrupt, "expected true or false"},
    {R"("special": true)", R"("special": true, "rstrip": null)", kCorrupt, "found null"},
    {R"("special": true)", R"("special": true, "normalized": null)", kCorrupt, "found null"},
    {R"("dropout": null)", R"("dropout": 0.1)", kUnsupported, "dropout"},
    {R"("dropout": null)", R"("end_of_word_suffix": "</w>")", kUnsupported, "end_of_word_suffix"},
    {R"("normalizer": null)", R"("normalizer": {"type": "Lowercase"})", kUnsupported,
     "normalizer \"Lowercase\""},
    {R"("normalizer": null)", R"("normalizer": [])", kCorrupt, "expected an object"},
    {R"("type": "ByteLevel", "add)", R"("type": "Metaspace", "add)", kUnsupported,
     "pre-tokenizer \"Metaspace\""},
    {R"("add_prefix_space": false)", R"("add_prefix_space": true)", kUnsupported, "adds a space"},
    {R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
     R"({"type": "Sequence", "pretokenizers": []})", kUnsupported, "no ByteLevel pre-tokenizer"},
    {R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
     R"({"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated"})", kUnsupported,
     "(a+)+b"},
    {R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
     R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed"})", kUnsupported,
     "Isolated"},
    {R"("decoder": {"type": "ByteLevel"})", R"("decoder": {"type": "WordPiece"})", kUnsupported,
     "decoder \"WordPiece\""},
    {R"("decoder": {"type": "ByteLevel"})", R"("decoder": null)", kUnsupported, "no decoder"},
    {R"("post_processor": null)", R"("post_processor": {"type": "BertProcessing"})", kUnsupported,
     "BertProcessing"},
    {R"("post_processor": null)",
     R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken":
        {"id": "<e>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<e>": {"ids": [9]}}})",
     kCorrupt, "id 9, which names no token"},
    {R"("post_processor": null)",
     R"("post_processor": {"type": "TemplateProcessing", "single": [], "special_tokens": {}})",
     kCorrupt, "does not name the text"},
    {R"("c": 2)", R"("c": 1)", kCorrupt, "the id 1 belongs to two tokens, \"b\" and \"c\""},
    {R"("c": 2)", R"("c": -2)", kCorrupt, "an integer from 0"},
    {R"("c": 2)", R"("c": 2.0)", kCorrupt, "found number"},
    {R"("c": 2)", R"("c": "2")", kCorrupt, "found string"},
    {R"("c": 2)", R"("c": 16000000)", kCorrupt, "far beyond the number of tokens"},
    {R"("c": 2)", R"("c": 99999999999999999999)", kCorrupt, "expected an integer"},
    {R"("c": 2)", R"("": 2)", kCorrupt, "empty"},
    {R"({"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "cd": 5})", "{}", kCorrupt, "empty"},
    {R"({"a": 0, "b": 1, "c": 2, "d": 3, "ab": 4, "cd": 5})", "[]", kCorrupt, "expected an object"},
    {R"("c d")", R"("cd")", kCorrupt, "one space"},
    {R"("c d")", R"("c d d")", kCorrupt, "one space"},
    {R"("c d")", R"(["c", "d", "d"])", kCorrupt, "3 parts; 2 are expected"},
    {R"("c d")", R"("c x")", kCorrupt, "names \"x\", which is not in the vocabulary"},
    {R"("c d")", R"("d c")", kCorrupt, "names \"dc\""},
    {R"("c d")", "17", kCorrupt, "expected a string"},
    {R"("merges": ["a b", "c d"])", R"("merges": {})", kCorrupt, "expected an array"},
    {R"("id": 6)", R"("id": 7)", kCorrupt, "makes it 6"},
    {R"("content": "<e>")", R"("content": "ab")", kCorrupt, "makes it 4"},
    {R"("content": "<e>")", R"("content": "")", kCorrupt, "1 to 512 bytes"},
    {R"("special": true})", R"("special": true}, {"id": 7, "content": "<e>"})", kCorrupt,
     "added twice"},
    {R"("special": true)", R"("special": "yes")", kCorrupt, "true or false"},
};

}  // namespace

TEST_CASE("each part of a tokenizer.json that cannot be right is refused in one sentence") {
  REQUIRE_NOTHROW(parse_tokenizer_spec(JsonDocument::parse(tiny(), "tiny")));
  for (const Bad& bad : kBad) {
    INFO(bad.from << " -> " << bad.to);
    const std::string text = replaced(tiny(), bad.from, bad.to);
    const auto error = error_of([&] { parse_tokenizer_spec(JsonDocument::parse(text, "t.json")); });
    REQUIRE(error);
    CHECK(error->code() == bad.code);
    CHECK_THAT(error->what(), Contains(bad.words));
    CHECK_THAT(error->where(), Contains("t.json"));
  }
}

TEST_CASE("both styles of merges and a Sequence of one normalizer are read") {
  const auto spec = parse_tokenizer_spec(JsonDocument::parse(
      replaced(replaced(tiny(), R"("c d")", R"(["c", "d"])"), R"("normalizer": null)",
               R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]})"),
      "t"));
  CHECK(spec.nfc);
  REQUIRE(spec.merges.size() == 2);
  CHECK(spec.merges[1].left == 2);
  CHECK(spec.merges[1].right == 3);
  CHECK(spec.merges[1].merged == 5);
}

TEST_CASE("a byte without a token is refused when a text needs it") {
  const Tokenizer tokenizer(parse_tokenizer_spec(JsonDocument::parse(tiny(), "tiny")));
  CHECK(tokenizer.encode("abcd<e>dc") == std::vector<TokenId>{4, 5, 6, 3, 2});
  const auto error = error_of([&] { tokenizer.encode("abz"); });
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::kUnsupported);
  CHECK_THAT(error->what(), Contains("byte 122"));
}

TEST_CASE("ids with small holes are kept") {
  const Tokenizer tokenizer(parse_tokenizer_spec(
      JsonDocument::parse(replaced(tiny(), R"("cd": 5)", R"("cd": 40)"), "tiny")));
  CHECK(tokenizer.encode("cd<e>") == std::vector<TokenId>{40, 6});
  CHECK(tokenizer.decode(std::vector<TokenId>{5, 40, 20, 41}) == "cd");
}

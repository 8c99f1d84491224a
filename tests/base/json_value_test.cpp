#include "src/base/json_value.h"

#include <catch2/catch.hpp>

#include "src/base/json_scan.h"

using Catch::Matchers::Contains;
using rlreplay::Error;
using rlreplay::ErrorCode;
using rlreplay::JsonDocument;
using rlreplay::JsonLimits;

namespace {

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  FAIL("no error");
  return Error(ErrorCode::kInternal, "");
}

}  // namespace

TEST_CASE("values are read by type") {
  const auto doc = JsonDocument::parse(
      R"({"a": [1, -2, 3.5, "x\u00e9", true, null], "o": {"b": 1, "a": 2}, "n": null})", "doc");
  const auto a = doc.root()["a"];
  REQUIRE(a.size() == 6);
  REQUIRE(a.at(1).integer(-2, 5) == -2);
  REQUIRE(a.at(2).number() == 3.5);
  REQUIRE(a.at(3).string() == "x\xc3\xa9");
  REQUIRE(a.at(4).boolean());
  REQUIRE(a.at(5).is_null());
  REQUIRE_FALSE(doc.root().find("n"));
  REQUIRE_FALSE(doc.root().find("absent"));
  const auto members = doc.root()["o"].members();
  REQUIRE(members.size() == 2);
  REQUIRE(members[0].first == "a");
  REQUIRE(doc.root()["o"].dump() == R"({"a":2,"b":1})");
}

TEST_CASE("an error of a value names its place") {
  const auto doc = JsonDocument::parse(R"({"a": [{"k": "text"}, 18446744073709551615]})", "file:3");
  const auto wrong = error_of([&] { doc.root()["a"].at(0)["k"].integer(0, 9); });
  REQUIRE(wrong.code() == ErrorCode::kCorrupt);
  REQUIRE(wrong.where() == "file:3 /a/0/k");
  REQUIRE_THAT(wrong.what(), Contains("an integer from 0 to 9, found string"));
  REQUIRE_THAT(error_of([&] { doc.root()["a"].at(1).integer(-1, 9); }).what(),
               Contains("found 18446744073709551615"));
  REQUIRE_THAT(error_of([&] { doc.root()["b"]; }).what(), Contains("\"b\" is missing"));
  REQUIRE_THROWS_AS(doc.root()["a"].at(2), Error);
  REQUIRE_THROWS_AS(doc.root()["a"]["k"], Error);
  REQUIRE_THROWS_AS(doc.root().string(), Error);
}

TEST_CASE("text that is not JSON is refused with its byte") {
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "nul", "\"\xff\"", "\"\\ud800\"", "1 2"}) {
    const auto e = error_of([&] { JsonDocument::parse(text, "bad"); });
    REQUIRE(e.code() == ErrorCode::kCorrupt);
    REQUIRE_THAT(e.what(), Contains("not valid JSON at byte"));
    for (const char c : std::string(e.what())) REQUIRE((c >= ' ' && c <= '~'));
  }
  REQUIRE_THROWS_AS(JsonDocument::parse("1e999", "bad"), Error);
}

TEST_CASE("size and depth are bounded") {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  REQUIRE_THAT(error_of([&] { JsonDocument::parse(deep, "d"); }).what(), Contains("nests deeper"));
  REQUIRE_NOTHROW(JsonDocument::parse(R"(["[[[[[[[[[[", "\"[[[[[[["])", "d", {1000, 1}));
  REQUIRE_THROWS_AS(JsonDocument::parse("[[1]]", "d", {1000, 1}), Error);
  REQUIRE_THROWS_AS(JsonDocument::parse("[1, 2, 3]", "d", {5, 64}), Error);
}

TEST_CASE("a key that occurs twice is refused where keys must be unique") {
  const JsonLimits unique{1000, 8, true};
  const char* twice = R"({"a": {"k": 1, "b": {"k": 1}, "\u006b": 2}})";
  REQUIRE_NOTHROW(JsonDocument::parse(twice, "d"));
  REQUIRE_THAT(error_of([&] { JsonDocument::parse(twice, "d", unique); }).what(),
               Contains("\"k\" occurs twice"));
  REQUIRE_NOTHROW(JsonDocument::parse(R"([{"k": 1}, {"k": {"k": 1}}])", "d", unique));
}

TEST_CASE("a missing file and a folder are refused") {
  const auto missing =
      error_of([] { static_cast<void>(JsonDocument::read("/nonexistent/file.json")); });
  REQUIRE(missing.code() == ErrorCode::kIncomplete);
  REQUIRE(missing.where() == "/nonexistent/file.json");
  REQUIRE_THROWS_AS(JsonDocument::read("/"), Error);
}

TEST_CASE("text is quoted") {
  REQUIRE(rlreplay::json_quoted("a\"\\\n\x01\xc3\xa9") == "\"a\\\"\\\\\\n\\u0001\xc3\xa9\"");
  REQUIRE(rlreplay::json_quoted("\xff") == "\"\xef\xbf\xbd\"");
}

TEST_CASE("a scan tells of every value with its place, and of nothing in inner objects") {
  std::string told;
  rlreplay::scan_json(R"({"a":[1,[2,{"x":[3]}],4],"b":{"c":5},"d":[]})", "doc",
                      [&](const rlreplay::ScannedValue& value) {
                        told += std::string(value.member());
                        for (const size_t index : value.place()) told += std::to_string(index);
                        told += ' ';
                      });
  REQUIRE(told == "a a0 a1 a10 a11 a2 b d ");
}

TEST_CASE("a scan refuses what a parse refuses, and values of another type with their place") {
  const auto scan = [](const std::string& text) {
    return error_of([&] {
      rlreplay::scan_json(text, "doc", [](const rlreplay::ScannedValue& value) {
        if (!value.place().empty()) value.integer(0, 9);
      });
    });
  };
  for (const std::string text : {"", "{", "[1]", "3", "{} 1", "{\"a\":\"\xff\"}"}) {
    REQUIRE(scan(text).code() == ErrorCode::kCorrupt);
  }
  REQUIRE(scan(std::string("{}\0", 3)).code() == ErrorCode::kCorrupt);
  REQUIRE(scan("{\"a\":" + std::string(70, '[') + std::string(70, ']') + "}").code() ==
          ErrorCode::kCorrupt);
  REQUIRE(scan(R"({"a":[1,10]})").where() == "doc /a/1");
}

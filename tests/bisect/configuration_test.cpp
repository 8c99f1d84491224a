#include "src/bisect/configuration.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "src/base/error.h"
#include "tests/environment.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

using namespace rlreplay;
using namespace rlreplay::bisect;

namespace {

Configuration read_text(const std::string& text, const std::string& ending) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / ("settings." + ending)) << text;
  return read_configuration(folder / ("settings." + ending));
}

std::vector<std::string> described(const Configuration& good, const Configuration& bad) {
  std::vector<std::string> out;
  for (const KeyDifference& difference : differences_of(good, bad)) {
    out.push_back(difference.describe());
  }
  return out;
}

std::set<size_t> all_of(size_t n) {
  std::set<size_t> all;
  for (size_t i = 0; i < n; ++i) all.insert(i);
  return all;
}

/// An object of few names, so that two of them meet.
std::string random_object(test::Random& random, int depth) {
  std::string out;
  for (const char* name : {"a", "b", "a.b", "\\\"a"}) {
    if (random.below(3) == 0) continue;
    const bool nested = depth > 0 && random.below(2) == 0;
    const std::string leaf = std::to_string(random.below(2));
    out += (out.empty() ? "" : ",") + std::string("\"") + name +
           "\":" + (nested ? random_object(random, depth - 1) : leaf);
  }
  return "{" + out + "}";
}

}  // namespace

TEST_CASE("a run gets of YAML what stands in the file") {
  const std::string text =
      "\"a: b\": 1\n\"on\": 1\n1: one\nb: [1, \"2\", [x, no]]\nempty: {}\nlr: 1e-3\nname: \"1\"\n"
      "nested: {deep: {er: 010}, on: ~}\nnothing: null\nshuffle: no\ntext: \"a, b\"\n";
  std::string canonical = text;
  canonical.replace(canonical.find("~"), 1, "null");
  const std::string written = file_text(read_text(text, "yaml"));
  for (std::istringstream lines(canonical); lines;) {
    std::string line;
    std::getline(lines, line);
    CHECK(written.find(line) != written.npos);
  }
  CHECK(written.size() == canonical.size());
  CHECK(file_text(read_text(written, "yml")) == written);
  CHECK(file_text(read_text("a:\n  - x, y\n  - {b: 'no'}\nc: |\n  two\n  lines\n", "yaml")) ==
        "a: [\"x, y\", {b: \"no\"}]\nc: \"two\\nlines\\n\"\n");
}

TEST_CASE("values of YAML are told apart as they are written") {
  const auto yaml = [](const std::string& text) { return read_text(text, "yaml"); };
  CHECK(described(yaml("name: \"1\""), yaml("name: 1")) ==
        std::vector<std::string>{"name: \"1\" -> 1"});
  CHECK(described(yaml("a: {b: [1, 2]}"), yaml("a:\n  b: [1, \"2\"]")) ==
        std::vector<std::string>{"a.b: [1, 2] -> [1, \"2\"]"});
  CHECK(described(yaml("name: 'x1'"), yaml("\"name\": x1")).empty());
  CHECK(described(yaml("name: 'no'"), yaml("name: no")).size() == 1);
}

TEST_CASE("YAML that cannot be handed on as it stands is refused") {
  const auto code_of = [](const std::string& text) {
    try {
      static_cast<void>(read_text(text, "yaml"));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kUsage;
  };
  CHECK(code_of("- 1\n") == ErrorCode::kCorrupt);
  CHECK(code_of("a: 1\na: 2\n") == ErrorCode::kCorrupt);
  CHECK(code_of("a: [\n") == ErrorCode::kCorrupt);
  CHECK(code_of("a: !!python/tuple [1]\nb: !mine x\n") == ErrorCode::kUnsupported);
  CHECK(code_of("a: &x {b: 1}\nc:\n  <<: *x\n") == ErrorCode::kUnsupported);
  CHECK(code_of("a: 1\n---\na: 2\n") == ErrorCode::kUnsupported);
  CHECK(code_of("? [a, b]\n: 1\n") == ErrorCode::kUnsupported);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string n = std::to_string(i), before = "*a" + std::to_string(i - 1);
    bomb += "a" + n + ": &a" + n + " [" + before;
    for (int k = 0; k < 8; ++k) bomb += ", " + before;
    bomb += "]\n";
  }
  CHECK(code_of(bomb) == ErrorCode::kUnsupported);
}

TEST_CASE("a value here and nested settings there are one difference") {
  const auto json = [](const std::string& text) { return read_text(text, "json"); };
  CHECK(described(json(R"({"a":{}})"), json(R"({"a":{"b":1}})")) ==
        std::vector<std::string>{R"(a: {} -> {"b":1})"});
  CHECK(described(json(R"({"a":{"b":1,"c":{"d":2}}})"), json(R"({"a":1})")) ==
        std::vector<std::string>{R"(a: {"b":1,"c":{"d":2}} -> 1)"});
  CHECK(described(json(R"({"a.b":1})"), json(R"({"a":{"b":1}})")) ==
        std::vector<std::string>{R"(a.b: not set -> 1)", R"("a.b": 1 -> not set)"});
  CHECK_THROWS_AS(static_cast<void>(differences_of(json("{}"), read_text("a: 1\n", "yaml"))),
                  Error);
}

TEST_CASE("the good settings with all differences are the bad ones") {
  test::Random random(test::seed());
  for (int i = 0; i < (test::full() ? 2000 : 200); ++i) {
    const Configuration good = read_text(random_object(random, 3), "json");
    const Configuration bad = read_text(random_object(random, 3), "json");
    const auto differences = differences_of(good, bad);
    const Configuration none = with_differences(good, differences, {});
    const Configuration all = with_differences(good, differences, all_of(differences.size()));
    CHECK(file_text(none) == file_text(good));
    CHECK(file_text(all) == file_text(bad));
  }
}

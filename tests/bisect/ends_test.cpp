#include "src/bisect/ends.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "src/base/error.h"
#include "src/base/temporary_folder.h"
#include "src/bisect/workspace.h"

using namespace rlreplay;
using namespace rlreplay::bisect;

namespace {

Ends parse(const std::vector<std::string>& words) {
  return parse_ends(words, [](const std::string& name) { return name.starts_with("branch"); });
}

}  // namespace

TEST_CASE("revisions, by one word or two") {
  for (const auto& words : {std::vector<std::string>{"v1.2..HEAD~3"}, {"v1.2", "HEAD~3"}}) {
    const Ends ends = parse(words);
    CHECK(ends.axis == Axis::kRevisions);
    CHECK(ends.good == "v1.2");
    CHECK(ends.bad == "HEAD~3");
  }
  CHECK(parse({"v1.."}).bad == "HEAD");
  CHECK(parse({"..v1"}).good == "HEAD");
}

TEST_CASE("two folders are dumps, also with dots in their paths") {
  const std::string folder = make_temporary_folder("rlbisect");
  for (const char* name : {"/run..1", "/run..2"}) std::filesystem::create_directory(folder + name);
  const std::string good = folder + "/../" + folder.substr(folder.rfind('/') + 1) + "/run..1/";
  const Ends ends = parse({good + ".." + folder + "/run..2/"});
  CHECK(ends.axis == Axis::kDumps);
  CHECK(ends.good == good);
  CHECK(ends.bad == folder + "/run..2/");
  CHECK(parse({good, folder + "/run..2"}).axis == Axis::kDumps);
  CHECK(parse({folder, "branch"}).axis == Axis::kRevisions);
  CHECK_THROWS_AS(parse({folder, "neither"}), Error);
  remove_folder(folder);
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("two ends with = are configurations") {
  const Ends ends = parse({"tp=1..tp=4,dp=2"});
  CHECK(ends.axis == Axis::kConfigurations);
  CHECK(ends.bad == "tp=4,dp=2");
  CHECK_THROWS_AS(parse({"tp=1..main"}), Error);
  CHECK(parse({"branch=1..main"}).axis == Axis::kRevisions);
}

TEST_CASE("words that are no two ends are refused") {
  CHECK_THROWS_AS(parse({}), Error);
  CHECK_THROWS_AS(parse({"main"}), Error);
  CHECK_THROWS_AS(parse({"a...b"}), Error);
}

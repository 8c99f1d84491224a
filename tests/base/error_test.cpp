#include "src/base/error.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "src/base/json_value.h"
#include "src/base/with_place.h"

namespace rlreplay {
namespace {

constexpr int kLastCode = 200;  // above every ErrorCode

/// What the schema of --json says of codes: each by its name, with the exit code.
JsonValue described_code() {
  static const JsonDocument schema = JsonDocument::read(RLREPLAY_DOCS "/json/error.schema.json");
  const JsonValue error = schema.root()["$defs"]["error"]["properties"]["error"];
  return error["properties"]["code"];
}

TEST_CASE("the schema of errors names every kind with the exit code that it has") {
  std::string said;
  const JsonValue names = described_code()["enum"];
  std::set<std::string> listed;
  for (size_t i = 0; i < names.size(); ++i) listed.insert(std::string(names.at(i).string()));
  std::set<std::string> known;
  for (int value = 0; value < kLastCode; ++value) {
    const auto code = static_cast<ErrorCode>(value);
    const std::string name(to_string(code));
    if (name == to_string(ErrorCode::kInternal) && code != ErrorCode::kInternal) continue;
    known.insert(name);
    said += (said.empty() ? "" : ", ") + name + " " + std::to_string(exit_code(code));
  }
  CHECK(listed == known);
  CHECK(described_code()["description"].string() == "its kind, which fixes the exit code: " + said);
}

TEST_CASE("an error that is told of another place keeps its kind, sentence and breach") {
  const Error error(ErrorCode::kCorrupt, "the chunk is no frame", "rollout/0.h5:0/tokens",
                    Breach{"frame", "0/tokens", 2048});
  try {
    with_step({3, 1}, [&]() -> int { throw error; });
    FAIL("nothing was thrown");
  } catch (const Error& placed) {
    CHECK(placed.code() == ErrorCode::kCorrupt);
    CHECK(std::string(placed.what()) == "the chunk is no frame");
    CHECK(placed.where() == "step 3.1, rollout/0.h5:0/tokens");
    REQUIRE(placed.breach());
    CHECK(placed.breach()->rule == "frame");
    CHECK(placed.breach()->dataset == "0/tokens");
    CHECK(placed.breach()->offset == 2048);
  }
}

}  // namespace
}  // namespace rlreplay

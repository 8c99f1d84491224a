#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/unit.h"
#include "format/verify.h"
#include "tests/format/golden_content.h"
#include "tests/format/support.h"

/// A dump of each released minor version, as it was written then, read today.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

namespace fs = std::filesystem;

const std::string kGoldens = RLREPLAY_SOURCE "/tests/golden/dumps/";

std::string this_version() { return std::to_string(kMajor) + "." + std::to_string(kMinor); }

std::vector<std::string> versions() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGoldens)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void check_unit(const DumpReader& dump, const GoldenUnit& want) {
  CAPTURE(want.first);
  const UnitRecord* record = dump.find(want.first);
  REQUIRE(record != nullptr);
  CHECK(record->content == content_of(want.second));
  const UnitReader unit = dump.open_unit(*record);
  CHECK(unit.datasets().size() == want.second.size());
  for (const Dataset& d : want.second) {
    CAPTURE(d.path);
    const StoredDataset* stored = unit.find(d.path);
    REQUIRE(stored != nullptr);
    CHECK(stored->dtype == d.dtype);
    CHECK(stored->shape == d.shape);
    CHECK(stored->attributes == d.attributes);
    CHECK(stored->base.has_value() == d.base.has_value());
    const Buffer<std::byte> bytes = dump.read(unit, *stored);
    CHECK(std::equal(d.bytes.begin(), d.bytes.end(), bytes.data(), bytes.data() + bytes.size()));
  }
}

}  // namespace

TEST_CASE("the golden dump of every version reads as what was written, byte for byte") {
  const char* record = std::getenv("RLREPLAY_RECORD");
  if (record != nullptr && std::string(record) == "1" && !fs::exists(kGoldens + this_version())) {
    write_golden_dump(kGoldens + this_version());
  }
  const auto names = versions();
  REQUIRE(std::find(names.begin(), names.end(), this_version()) != names.end());
  const std::vector<GoldenUnit> units = golden_units();
  for (const std::string& version : names) {
    CAPTURE(version);
    const DumpReader dump = DumpReader::open(kGoldens + version);
    CHECK(dump.sealed());
    CHECK(dump.complete());
    CHECK(dump.meta() == kGoldenMeta);
    CHECK(dump.units().size() == units.size());
    for (const GoldenUnit& unit : units) check_unit(dump, unit);
    const VerifyReport report = verify(kGoldens + version, true);
    for (const Problem& problem : report.problems) {
      FAIL_CHECK(to_string(problem.rule) << " " << problem.path << " " << problem.dataset);
    }
    CHECK(report.whole_steps == 1);
  }
}

TEST_CASE("the same content written today has the roots of the golden dumps") {
  TemporaryFolder folder;
  const Hash root = write_golden_dump(folder / "now");
  for (const std::string& version : versions()) {
    CAPTURE(version);
    CHECK(DumpReader::open(kGoldens + version).root() == root);
  }
}

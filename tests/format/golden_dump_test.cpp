#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "format/canonical.h"
#include "format/dump_reader.h"
#include "format/unit.h"
#include "format/upgrade.h"
#include "format/verify.h"
#include "tests/format/golden_content.h"
#include "tests/format/golden_sidecar.h"
#include "tests/format/support.h"
#include "tests/golden.h"

/// A dump of each released minor version, as it was written then, read today.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;
using rlreplay::test::records;

namespace {

namespace fs = std::filesystem;

const std::string kGoldens = RLREPLAY_SOURCE "/tests/golden/dumps/";

std::vector<std::string> versions() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGoldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
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

std::string list_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "[\n" : ",\n") + line;
  return text + "\n]\n";
}

}  // namespace

TEST_CASE("the golden dump of every version reads as what was written, byte for byte") {
  if (records() && !fs::exists(kGoldens + this_version())) {
    write_golden_dump(kGoldens + this_version(), this_version());
  }
  const auto names = versions();
  REQUIRE(std::find(names.begin(), names.end(), this_version()) != names.end());
  for (const std::string& version : names) {
    CAPTURE(version);
    const std::vector<GoldenUnit> units = golden_units(version);
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
    CHECK(report.whole_steps == (golden_version(version).parts ? 2 : 1));
    CHECK(dump.journals().size() == (golden_version(version).writers ? 2 : 1));
  }
}

TEST_CASE("the golden dumps say what their text beside them says") {
  for (const std::string& version : versions()) {
    CAPTURE(version);
    const std::string beside = kGoldens + version + ".json";
    const std::vector<std::string> lines = sidecar_of(DumpReader::open(kGoldens + version));
    if (records() && !fs::exists(beside)) write_text(beside, list_of(lines));
    const std::string text = read_text(beside);
    for (const std::string& line : lines) {
      CAPTURE(line.substr(0, 120));
      const bool there = text.find("\n" + line) != text.npos;
      CHECK(there);
    }
    const bool same = text == list_of(lines);
    CHECK(same);
  }
}

TEST_CASE("the same content written today has the roots of the golden dumps") {
  TemporaryFolder folder;
  for (const std::string& version : versions()) {
    CAPTURE(version);
    const Hash root = write_golden_dump(folder / version, version);
    CHECK(DumpReader::open(kGoldens + version).root() == root);
  }
}

TEST_CASE("an older dump rewritten in this version means the same and says where it is from") {
  TemporaryFolder folder;
  for (const std::string& version : versions()) {
    CAPTURE(version);
    const DumpReader old = DumpReader::open(kGoldens + version);
    CHECK(old.version() == version);
    if (version == this_version()) {
      CHECK_THROWS_AS(upgrade(kGoldens + version, folder / version, 2), Error);
      continue;
    }
    const UpgradeReport report = upgrade(kGoldens + version, folder / version, 2);
    CHECK(report.from == version);
    CHECK(report.root == old.root());
    const DumpReader fresh = DumpReader::open(folder / version);
    CHECK(fresh.version() == this_version());
    REQUIRE(fresh.derived_from().has_value());
    CHECK(*fresh.derived_from() == DerivedFrom{version, old.root()});
    CHECK(fresh.unstable() == old.unstable());
    CHECK(verify(folder / version, true).problems.empty());
    for (const GoldenUnit& unit : golden_units(version)) check_unit(fresh, unit);
  }
}

TEST_CASE("an upgrade in place leaves one dump under the old name, and loses nobody's file") {
  TemporaryFolder folder;
  fs::copy(kGoldens + "0.1", folder / "d", fs::copy_options::recursive);
  write_text(folder / "d/notes.txt", "mine");
  CHECK_THROWS_AS(upgrade_in_place(folder / "d", 2), Error);
  CHECK(DumpReader::open(folder / "d").version() == "0.1");
  fs::remove(folder / "d/notes.txt");
  const UpgradeReport report = upgrade_in_place((folder / "d") + "/", 2);
  CHECK(report.from == "0.1");
  CHECK(DumpReader::open(folder / "d").version() == this_version());
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a newer minor is read and what it adds left aside; a newer major is refused") {
  const auto rewritten = [](const std::string& from, const std::string& to) {
    TemporaryFolder folder;
    write_golden_dump(folder / "d", this_version());
    std::string text = read_text(folder / "d/manifest.json");
    text = text.substr(8, text.size() - 8 - 44);
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    write_text(folder / "d/manifest.json", record_line(text.replace(at, from.size(), to)));
    const VerifyReport report = verify(folder / "d", true);
    return report.problems.empty() ? "read " + report.version
                                   : std::string(to_string(report.problems[0].rule));
  };
  CHECK(rewritten("\"minor\":0", "\"minor\":10") == "read 1.10");
  CHECK(rewritten("\"minor\":0", "\"minor\":10,\"more\":{\"a\":1}") == "read 1.10");
  CHECK(rewritten("\"major\":1", "\"major\":2") == "version");
  CHECK(rewritten("\"must_understand\":[]", "\"must_understand\":[\"x\"]") == "must-understand");
}

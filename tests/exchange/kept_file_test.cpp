// Kept files of a dump that somebody forged.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "format/dump_reader.h"
#include "format/dump_writer.h"
#include "src/replay/exchange/export_torch.h"
#include "tests/format/support.h"

namespace rlreplay::replay {
namespace {

using format::test::TemporaryFolder;

struct Kept {
  std::string unit;
  std::string group;
  std::string file;
  std::string pickle;
};

const std::string kEmpty("\x80\x02}.", 4);
const std::string kRollout("\x80\x02}(X\x07\0\0\0samples]X\x0a\0\0\0rollout_idK\0u.", 36);

/// Exports a dump of these kept files; the error, whose place must have `where`.
void refused(const std::vector<Kept>& files, const std::string& words) {
  const TemporaryFolder folder;
  auto writer = format::DumpWriter::create(folder / "dump", "{\"ranks\":1}", {});
  for (const Kept& kept : files) {
    std::vector<format::Dataset> datasets;
    const auto add = [&](const char* name, DType dtype, auto values) {
      const uint64_t size = values.size();
      datasets.push_back(
          format::dataset_of(kept.group + "/" + name, dtype, {size}, std::move(values)));
    };
    add("pickle", DType::kU8, std::vector<uint8_t>(kept.pickle.begin(), kept.pickle.end()));
    datasets.back().attributes["file"] = kept.file;
    add("records", DType::kU8, std::vector<uint8_t>(1));
    add("record_offsets", DType::kU64, std::vector<uint64_t>{0, 1});
    writer.append(kept.unit, datasets);
  }
  writer.seal({.complete = true, .unstable = {}, .derived_from = {}});
  const format::DumpReader dump = format::DumpReader::open(folder / "dump");
  try {
    export_torch(dump, "slime", folder / "out", {});
    FAIL("it was exported");
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(exit_code(error.code()) == 3);
    CHECK(std::string(error.what()).find(words) != std::string::npos);
  }
  const std::vector<foreign::Problem> found = check_kept_files(dump);
  REQUIRE(!found.empty());
  CHECK(found.front().code == "not-exportable");
}

TEST_CASE("kept files are refused whose name is no plain path, or not their unit's") {
  for (const std::string& name :
       {std::string("."), std::string("a/"), std::string("a/.."), std::string("../a.pt"),
        std::string("./a.pt"), std::string("/a.pt"), std::string("a/../b.pt"), std::string("a\nb"),
        std::string("a\x1b[2J.pt"), std::string(300, 'a'), std::string()}) {
    CAPTURE(name);
    refused({{"x-slime/a.h5", "0", name, kEmpty}}, "no plain path");
  }
  refused({{"x-slime/a.h5", "0", "b.pt", kEmpty}}, "another unit");
  refused({{"x-slime/a.h5", "0", "a.pt", kEmpty}, {"x-slime/b.h5", "0", "a.pt", kEmpty}},
          "another unit");
}

TEST_CASE("a kept rollout that belongs to no rollout is refused") {
  refused({{"x-slime/a.h5", "data", "a.pt", kRollout}}, "no rollout's");
  refused({{"x-slime/a.h5", "0", "a.pt", kRollout}, {"x-slime/b.h5", "data", "b.pt", kRollout}},
          "no rollout's");
}

}  // namespace
}  // namespace rlreplay::replay

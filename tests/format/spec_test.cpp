#include <catch2/catch.hpp>
#include <iostream>

#include "format/columns.h"
#include "format/dump_reader.h"
#include "tests/format/column_tables.h"
#include "tests/format/dumps.h"
#include "tests/golden.h"

/// The worked example of SPEC.md, done by the code, and its tables, printed from the code's.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

TEST_CASE("the example of SPEC.md is what the writer writes") {
  TemporaryFolder folder;
  using std::vector;
  const vector<Dataset> datasets = {
      dataset_of("0/sample_id", DType::kU64, {1}, vector<uint64_t>{7}),
      dataset_of("0/offsets", DType::kU64, {2}, vector<uint64_t>{0, 3}),
      dataset_of("0/tokens", DType::kI32, {3}, vector<int32_t>{11, 22, 33}),
  };
  {
    DumpWriter writer = DumpWriter::create(folder / "a", R"({"ranks": 1})");
    writer.append("rollout/0.h5", datasets);
    writer.seal();
  }
  const std::string spec = read_text(RLREPLAY_SOURCE "/format/SPEC.md");
  const auto quoted = [&](const std::string& text) {
    INFO(text);
    CHECK(spec.find(text) != std::string::npos);
  };
  const std::string journal = read_text(folder / "a/journal/0.jsonl");
  if (rlreplay::test::records()) std::cout << journal << read_text(folder / "a/manifest.json");
  quoted(journal.substr(0, journal.find('\n') + 1));
  const DumpReader dump = DumpReader::open(folder / "a");
  const UnitReader unit = dump.open_unit(dump.units()[0]);
  std::string content = "rlreplay content\n";
  for (const StoredDataset& d : unit.datasets()) {
    content += d.path + " " + std::string(to_string(d.dtype)) + " " + std::to_string(d.shape[0]) +
               " " + d.hash.hex() + "\n";
  }
  CHECK(hash_of(content) == dump.units()[0].content);
  quoted(content);
  quoted(dump.units()[0].content.hex());
  const std::string root =
      "rlreplay root\n{\"ranks\":1}\nrollout/0.h5 " + dump.units()[0].content.hex() + "\n";
  CHECK(hash_of(root) == dump.root());
  quoted(root);
  quoted(dump.root().hex());
}

TEST_CASE("the index of SPEC.md is the one of its unit") {
  UnitRecord unit;
  unit.path = "rollout/0.h5";
  unit.size = 2084;
  unit.logical = 36;
  unit.hash = *Hash::from_hex("a8b7ca8a0574b3f3cd2701fecfa9d3af");
  unit.content = *Hash::from_hex("f02d0ceacf36de1068166cd8e6c58ed7");
  unit.groups = {"0"};
  const UnitRecord* const sorted = &unit;
  const Buffer<std::byte> bytes = UnitIndex::encode({&sorted, 1});
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0 && i % 32 == 0) text += '\n';
    text += kDigits[static_cast<int>(bytes[i]) >> 4];
    text += kDigits[static_cast<int>(bytes[i]) & 15];
  }
  CHECK(read_text(RLREPLAY_SOURCE "/format/SPEC.md").find("\n" + text + "\n") != std::string::npos);
}

TEST_CASE("the tables of datasets in SPEC.md are the code's; RLREPLAY_RECORD=1 writes them") {
  const std::string path = RLREPLAY_SOURCE "/format/SPEC.md";
  std::string spec = read_text(path);
  const std::string before = spec;
  for (const char* section : {"rollout", "train", "events", "x-slime"}) {
    CAPTURE(section);
    const size_t heading = spec.find("\n### " + std::string(section));
    REQUIRE(heading != spec.npos);
    const size_t begin = spec.find("\n| name |", heading) + 1;
    const size_t end = spec.find("\n\n", begin) + 1;
    const std::string printed = column_table(section);
    if (!rlreplay::test::records()) CHECK(spec.substr(begin, end - begin) == printed);
    spec.replace(begin, end - begin, printed);
  }
  if (rlreplay::test::records() && spec != before) write_text(path, spec);
}

TEST_CASE(
    "each dataset of known meaning is known once, under what it is a part of, by dtypes that there "
    "are") {
  for (const KnownDataset& known : known_datasets()) {
    CAPTURE(known.kind, known.name);
    CHECK(find_known(known.kind, known.name) == &known);
    const std::string_view column = known.part_of;
    if (!column.empty() && column != "calls") CHECK(find_known(known.kind, column) != nullptr);
    for (const std::string& dtype : words_of(known.dtypes))
      CHECK(dtype_from_string(dtype).has_value());
  }
}

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "format/canonical.h"
#include "format/chain_reader.h"
#include "format/rule.h"
#include "tests/format/dumps.h"

using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

void check_values(const DumpReader& dump, uint64_t unit) {
  const UnitRecord* record = dump.find(unit_path(unit));
  REQUIRE(record != nullptr);
  const UnitReader reader = dump.open_unit(*record);
  const auto datasets = unit_datasets(unit);
  CHECK(reader.datasets().size() == datasets.size());
  for (const Dataset& d : datasets) {
    const Buffer<std::byte> bytes = dump.read(reader, *reader.find(d.path));
    CHECK(std::equal(d.bytes.begin(), d.bytes.end(), bytes.data(), bytes.data() + bytes.size()));
  }
}

}  // namespace

TEST_CASE("a dump comes back whole") {
  TemporaryFolder folder;
  const Hash root = write_dump(folder / "a", 9);
  const DumpReader dump = DumpReader::open(folder / "a");
  CHECK(dump.sealed());
  CHECK(dump.complete());
  CHECK(dump.root() == root);
  CHECK(dump.meta() == R"({"lr":"0.001","model":{"hidden":48},"ranks":2})");
  REQUIRE(dump.units().size() == 9);
  for (uint64_t unit = 0; unit < 9; ++unit) check_values(dump, unit);
  const auto ranks = dump.find("train", "1-0");
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[1]->path == "train/1-0/rank1.h5");
  CHECK(dump.find("train", "7-0").empty());

  const VerifyReport report = verify(folder / "a", true);
  CHECK(report.problems.empty());
  CHECK(report.complete);
  CHECK(report.whole_units == 9);
  CHECK(report.whole_steps == 3);
}

TEST_CASE("equal runs leave equal bytes in every file") {
  TemporaryFolder folder;
  write_dump(folder / "a", 6);
  write_dump(folder / "b", 6);
  CHECK(snapshot(folder / "a") == snapshot(folder / "b"));
  write_dump(folder / "c", 5);
  CHECK(DumpReader::open(folder / "a").root() != DumpReader::open(folder / "c").root());
}

TEST_CASE("a dump whose writer went away can be read, resumed and sealed") {
  TemporaryFolder folder;
  write_dump(folder / "whole", 7);
  {
    DumpWriter writer = DumpWriter::create(folder / "a", kMeta);
    append_units(writer, 0, 4);
  }
  write_text(folder / "a/rollout/9.h5.tmp", "torn");
  write_text(folder / "a/journal/0.jsonl",
             read_text(folder / "a/journal/0.jsonl") + R"({"body":{"li)");
  {
    const DumpReader dump = DumpReader::open(folder / "a");
    CHECK_FALSE(dump.sealed());
    CHECK_FALSE(dump.complete());
    REQUIRE(dump.units().size() == 4);
    check_values(dump, 3);
    CHECK(rules_of(folder / "a", true).empty());
    CHECK(verify(folder / "a", false).whole_steps == 1);
  }
  {
    DumpWriter writer = DumpWriter::resume(folder / "a");
    CHECK(writer.units().size() == 4);
    append_units(writer, 4, 7);
    writer.seal();
  }
  CHECK(snapshot(folder / "a") == snapshot(folder / "whole"));

  { append_units(*std::make_unique<DumpWriter>(DumpWriter::create(folder / "b", kMeta)), 0, 2); }
  DumpWriter::resume(folder / "b").seal({.complete = false, .unstable = {}, .derived_from = {}});
  const DumpReader recovered = DumpReader::open(folder / "b");
  CHECK(recovered.sealed());
  CHECK_FALSE(recovered.complete());
  CHECK(rules_of(folder / "b", true).empty());
}

TEST_CASE("what made a run outlives its writer") {
  TemporaryFolder folder;
  const auto with = [](const char* unstable) {
    WriterOptions options;
    options.unstable = unstable;
    return options;
  };
  const auto said = [&] { return DumpReader::open(folder / "a").unstable(); };
  {
    append_units(*std::make_unique<DumpWriter>(
                     DumpWriter::create(folder / "a", kMeta, with(R"({"b":"x","a":1})"))),
                 0, 2);
  }
  CHECK(said() == R"({"a":1,"b":"x"})");
  { static_cast<void>(DumpWriter::resume(folder / "a")); }
  CHECK(said() == R"({"a":1,"b":"x"})");
  { static_cast<void>(DumpWriter::resume(folder / "a", with(R"({"a":2})"))); }
  CHECK(said() == R"({"a":2})");
  const std::string whole = read_text(folder / "a/INCOMPLETE");

  const auto record = [](const std::string& body) { return record_line(body); };
  const std::string deep = std::string(20, '[') + std::string(20, ']');
  const std::pair<std::string, std::string> hostile[] = {
      {"record-syntax", "nonsense"},
      {"record-syntax", whole.substr(0, whole.size() - 1)},
      {"record-syntax", "\n"},
      {"record-hash", std::string(whole).replace(whole.find("\"a\":2") + 4, 1, "3")},
      {"record-form", record(R"({"unstable":{"a":0.5}})")},
      {"record-form", record(R"({"unstable":{"a":)" + deep + "}}")},
      {"record-form", record("{")},
      {"schema", record("[]")},
      {"schema", record(R"({"unstable":7})")}};
  for (const auto& [rule, text] : hostile) {
    CAPTURE(text);
    write_text(folder / "a/INCOMPLETE", text);
    CHECK(rules_of(folder / "a", true) == rule);
    CHECK(said() == "{}");
    CHECK(verify(folder / "a", true).whole_units == 2);
  }
  std::filesystem::resize_file(folder / "a/INCOMPLETE", kMaxManifestBytes + 1);
  CHECK(rules_of(folder / "a", true) == "file-size");
  CHECK(said() == "{}");
  for (const std::string& silent : {std::string(), record(R"({"host":"h","process":1})")}) {
    write_text(folder / "a/INCOMPLETE", silent);
    CHECK(rules_of(folder / "a", true).empty());
    CHECK(said() == "{}");
  }
  write_text(folder / "a/INCOMPLETE", whole);
  DumpWriter::resume(folder / "a").seal({.complete = false, .unstable = {}, .derived_from = {}});
  CHECK(said() == R"({"a":2})");
}

TEST_CASE("one writer at a time, and only where there is room") {
  TemporaryFolder folder;
  {
    DumpWriter writer = DumpWriter::create(folder / "a", kMeta);
    expect_usage("another process", [&] { static_cast<void>(DumpWriter::resume(folder / "a")); });
    expect_usage("another process",
                 [&] { static_cast<void>(DumpWriter::create(folder / "a", kMeta)); });
    append_units(writer, 0, 1);
    expect_usage("has this unit", [&] { append_units(writer, 0, 1); });
    writer.seal();
    expect_usage("sealed", [&] { append_units(writer, 1, 2); });
  }
  expect_usage("finished dump",
               [&] { static_cast<void>(DumpWriter::create(folder / "a", kMeta)); });
  expect_usage("nothing to resume", [&] { static_cast<void>(DumpWriter::resume(folder / "a")); });
  std::filesystem::create_directory(folder / "mine");
  write_text(folder / "mine/thesis.txt", "text");
  expect_usage("not empty", [&] { static_cast<void>(DumpWriter::create(folder / "mine", kMeta)); });
  expect_usage("holds no dump", [&] { remove_dump(folder / "mine"); });
  CHECK(snapshot(folder / "mine").size() == 1);
  CHECK_THROWS_AS(DumpWriter::resume(folder / "mine"), FormatError);
  CHECK_THROWS_AS(DumpReader::open(folder / "absent"), Error);
  CHECK_THROWS_AS(DumpWriter::create(folder / "absent/a", kMeta), Error);
  for (const char* meta : {"", "[]", "{}", R"({"ranks":0})", R"({"ranks":1,"lr":0.5})"}) {
    CAPTURE(meta);
    CHECK_THROWS_AS(DumpWriter::create(folder / "b", meta), Error);
  }
  write_text(folder / "a/notes.txt", "mine");
  remove_dump(folder / "a");
  REQUIRE(snapshot(folder / "a").size() == 1);
  CHECK(snapshot(folder / "a")[0].first == "notes.txt");
}

TEST_CASE("what no reader takes is not written, and what was written before is whole") {
  TemporaryFolder folder;
  const auto refused = [&](const WriterOptions& options, const std::string& words) {
    const std::string path = folder / words;
    DumpWriter writer = DumpWriter::create(path, kMeta, options);
    uint64_t units = 0;
    try {
      while (units < 1000) append_units(writer, units, units + 1), ++units;
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUnsupported);
      CHECK_THAT(e.what(), Catch::Contains(words));
    }
    CHECK(units < 1000);
    CHECK(DumpReader::open(path).units().size() == units);
    writer.seal();
    CHECK(rules_of(path, true).empty());
    return units;
  };
  WriterOptions small;
  small.unit_bytes = 100;
  CHECK(refused(small, "of which readers take") == 0);
  WriterOptions few;
  few.index_bytes = 8000;
  CHECK(refused(few, "is full") > 10);
}

TEST_CASE("differences between steps lead back to a full copy") {
  TemporaryFolder folder;
  Random random(8);
  std::vector<Dataset> steps = {dataset("0-0/parameters/w", DType::kBF16, {50'000}, random)};
  DumpWriter writer = DumpWriter::create(folder / "a", R"({"ranks":1})");
  writer.append("weights/0-0/rank0.h5", steps);
  for (uint64_t i = 1; i < 20; ++i) {
    std::vector<std::byte> next(steps.back().bytes.begin(), steps.back().bytes.end());
    for (int flips = 0; flips < 50; ++flips) next[random.below(next.size())] ^= std::byte{3};
    const std::string step = std::to_string(i) + "-0";
    Dataset d = dataset_of(step + "/parameters/w", DType::kBF16, {50'000}, next);
    d.base = Base{"weights/" + std::to_string(i - 1) + "-0/rank0.h5", hash_of(steps.back().bytes)};
    d.base_bytes = steps.back().bytes;
    writer.append("weights/" + step + "/rank0.h5", {&d, 1});
    steps.push_back(d);
  }
  writer.seal();
  const DumpReader dump = DumpReader::open(folder / "a");
  for (const uint64_t i : {0, 1, 16}) {
    const UnitReader unit =
        dump.open_unit(*dump.find("weights/" + std::to_string(i) + "-0/rank0.h5"));
    const Buffer<std::byte> bytes = dump.read(unit, unit.datasets()[0]);
    CHECK(std::equal(bytes.data(), bytes.data() + bytes.size(), steps[i].bytes.begin()));
  }
  const UnitReader deep = dump.open_unit(*dump.find("weights/17-0/rank0.h5"));
  CHECK_THROWS_AS(dump.read(deep, deep.datasets()[0]), FormatError);
  // One finding, and what rests on that unit is not whole either.
  CHECK(rules_of(folder / "a", true) == "parent");
  CHECK(verify(folder / "a", true).whole_units == 17);
}

TEST_CASE("a chain of differences is read one unit at a time") {
  TemporaryFolder folder;
  Random random(9);
  const auto path = [](uint64_t i) { return "weights/" + std::to_string(i) + "-0/rank0.h5"; };
  std::vector<std::vector<Dataset>> steps;
  DumpWriter writer = DumpWriter::create(folder / "a", R"({"ranks":1})");
  for (uint64_t i = 0; i < 6; ++i) {
    std::vector<Dataset>& unit = steps.emplace_back();
    for (const char* name : {"v", "w"}) {
      const std::string step = std::to_string(i) + "-0/";
      unit.push_back(dataset(step + name, DType::kF32, {300'000}, random));
      if (i == 0 || (i == 3 && *name == 'w')) continue;  // a full copy in the middle
      unit.back().base_bytes = steps[i - 1][unit.size() - 1].bytes;
      unit.back().base = Base{path(i - 1), hash_of(unit.back().base_bytes)};
    }
    writer.append(path(i), unit);
  }
  writer.seal();
  const DumpReader dump = DumpReader::open(folder / "a");
  std::map<std::string, Buffer<std::byte>> places;
  ChainReader chain(dump, [&](const StoredDataset& d) {
    Buffer<std::byte>& place = places[d.path.substr(4)];
    place.resize(d.bytes);
    return std::span(place.data(), place.size());
  });
  for (const uint64_t i : {5, 2, 3, 4, 5, 0, 5}) {
    const UnitReader unit = dump.open_unit(*dump.find(path(i)));
    chain.begin(unit, std::to_string(i) + "-0");
    for (const Dataset& expected : steps[i]) {
      CHECK(std::ranges::equal(chain.read(unit, *unit.find(expected.path)), expected.bytes));
      const Buffer<std::byte> alone = dump.read(unit, *unit.find(expected.path));
      CHECK(std::equal(alone.data(), alone.data() + alone.size(), expected.bytes.begin()));
    }
  }
  std::filesystem::remove(folder / "a/weights/1-0/rank0.h5");
  const UnitReader unit = dump.open_unit(*dump.find(path(2)));
  const DumpReader again = DumpReader::open(folder / "a");
  ChainReader fresh(again, [&](const StoredDataset& d) {
    return std::span(places[d.path.substr(4)].data(), d.bytes);
  });
  CHECK_THROWS_AS(fresh.begin(unit, "2-0"), FormatError);
  // One finding: what rests on the missing unit is not whole, and says nothing new.
  CHECK(rules_of(folder / "a", true) == "unit-missing");
  CHECK(verify(folder / "a", true).whole_units == 1);
}

TEST_CASE("values that break the tables are reported") {
  const auto rules = [](const std::function<void(std::vector<Dataset>&)>& change) {
    TemporaryFolder folder;
    DumpWriter writer = DumpWriter::create(folder / "a", kMeta);
    std::vector<Dataset> datasets = unit_datasets(0);
    change(datasets);
    writer.append(unit_path(0), datasets);
    writer.seal();
    return rules_of(folder / "a", true);
  };
  using U64 = std::vector<uint64_t>;
  CHECK(rules([](auto&) {}).empty());
  CHECK(rules([](auto& d) {
          d[1] = dataset_of("0/offsets", DType::kU64, {4}, U64{0, 9, 5, 9});
        }) == "meaning");
  CHECK(rules([](auto& d) {
          d[1] = dataset_of("0/offsets", DType::kU64, {4}, U64{1, 2, 3, 9});
        }) == "meaning");
  CHECK(rules([](auto& d) {
          d[1] = dataset_of("0/offsets", DType::kU64, {3}, U64{0, 2, 3});
        }).find("meaning") == 0);
  CHECK(rules([](auto& d) {
          d[2] = dataset_of("0/loss_mask", DType::kU8, d[2].shape,
                            std::vector<uint8_t>(d[2].shape[0], 2));
        }) == "meaning");
  CHECK(rules([](auto& d) { d[2].dtype = DType::kI8; }) == "meaning");
}

TEST_CASE("canonical text is one text, and fractions are refused") {
  CHECK(canonical_object(R"({"b" : 1, "a":"\u00e9\n"})", "x") == "{\"a\":\"\u00e9\\n\",\"b\":1}");
  CHECK(JsonObject().text("a", "\x01\"\\/\x7f").str() == "{\"a\":\"\\u0001\\\"\\\\/\x7f\"}");
  CHECK_THROWS_AS(canonical_object(R"({"a":[1.5]})", "x"), Error);
  CHECK_THROWS_AS(JsonObject().text("a", "\xff"), Error);
  const std::string line = record_line(R"({"a":1})");
  CHECK(open_record(std::string_view(line).substr(0, line.size() - 1), "x").body == R"({"a":1})");
  for (const char* body : {R"({"a":1,"a":1})", R"({"a": 1})", R"({"b":1,"a":1})", R"({"a":1.0})",
                           R"({"a":"\u0041"})", R"({"a":1)", ""}) {
    CAPTURE(body);
    const std::string bad = record_line(body);
    try {
      open_record(std::string_view(bad).substr(0, bad.size() - 1), "x");
      FAIL("accepted");
    } catch (const FormatError& e) {
      CHECK(e.rule() == Rule::kRecordForm);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kUsage);  // a fraction
    }
  }
}

TEST_CASE("a unit that is read from its file gives what one in memory gives") {
  TemporaryFolder folder;
  const std::string path = folder / "dump";
  Random random(8);
  const std::vector<Dataset> datasets = {dataset("0/bytes", DType::kU8, {3'000'000}, random),
                                         dataset("0/large", DType::kF32, {700'000}, random),
                                         dataset("0/small", DType::kI64, {5}, random)};
  DumpWriter writer = DumpWriter::create(path, kMeta);
  const UnitRecord record = writer.append("x-test/0.h5", datasets);
  writer.seal();
  const DumpReader dump = DumpReader::open(path);
  const UnitReader held = dump.open_unit(record);
  const DumpReader other = DumpReader::open(path);
  const UnitReader mapped = other.open_unit(record, 0);
  REQUIRE(mapped.datasets().size() == datasets.size());
  for (size_t i = 0; i < datasets.size(); ++i) {
    const StoredDataset& stored = mapped.datasets()[i];
    const Buffer<std::byte> bytes = other.read(mapped, stored);
    CHECK(std::ranges::equal(std::span(bytes.data(), bytes.size()), datasets[i].bytes));
    std::vector<std::byte> streamed;
    mapped.stream(stored, [&](std::span<const std::byte> piece) {
      streamed.insert(streamed.end(), piece.begin(), piece.end());
    });
    CHECK(std::ranges::equal(streamed, datasets[i].bytes));
    CHECK(stored.hash == held.datasets()[i].hash);
  }
  // Who takes bytes away meanwhile is found out.
  const std::string file = path + "/" + record.path;
  std::filesystem::resize_file(file, record.size / 3);
  size_t lost = 0;
  for (const StoredDataset& stored : mapped.datasets()) {
    try {
      static_cast<void>(other.read(mapped, stored));
    } catch (const FormatError& e) {
      CHECK((e.rule() == Rule::kFrame || e.rule() == Rule::kDatasetHash));
      ++lost;
    }
  }
  CHECK(lost > 0);
  CHECK(dump.read(held, held.datasets().front()).size() == 3'000'000);
}

TEST_CASE("the units that were opened last are not read again") {
  TemporaryFolder folder;
  const std::string path = folder / "dump";
  Random random(9);
  DumpWriter writer = DumpWriter::create(path, kMeta);
  for (int i = 0; i < 20; ++i) {
    const Dataset one = dataset("0/x", DType::kI32, {10}, random);
    writer.append("x-test/" + std::to_string(10 + i) + ".h5", {&one, 1});
  }
  writer.seal();
  const DumpReader dump = DumpReader::open(path);
  const UnitRecord& first = dump.units().front();
  static_cast<void>(dump.open_unit(first));
  std::filesystem::remove(path + "/" + first.path);
  CHECK(dump.open_unit(first).datasets().size() == 1);
  UnitRecord another = first;
  another.size += 1;
  CHECK_THROWS_AS(dump.open_unit(another), FormatError);
  for (size_t i = 1; i < dump.units().size(); ++i)
    static_cast<void>(dump.open_unit(dump.units()[i]));
  CHECK_THROWS_AS(dump.open_unit(first), FormatError);
}

// Whatever of the tables of SPEC.md a dump holds, wholly, in part or alone: an import of its export
// gives it back, or the export has named it, or has refused the dump.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>

#include "format/columns.h"
#include "format/dump_content.h"
#include "format/dump_writer.h"
#include "src/base/error.h"
#include "src/replay/exchange/export.h"
#include "src/replay/exchange/import.h"
#include "tests/format/sample_data.h"

namespace rlreplay::replay {
namespace {

using format::Dataset;
using format::DumpReader;
using format::test::TemporaryFolder;
using Datasets = std::vector<Dataset>;

constexpr size_t kSamples = 3;
constexpr const char* kUnits[] = {"rollout/4.h5", "train/4-1/rank0.h5"};
constexpr const char* kGroups[] = {"4", "4-1"};

std::string_view name_of(const Dataset& dataset) {
  return std::string_view(dataset.path).substr(dataset.path.find('/') + 1);
}

Datasets rollout() {
  return to_datasets(
      std::make_shared<const format::RolloutData>(format::test::full_rollout(kSamples)), "4");
}

Datasets train() {
  return to_datasets(std::make_shared<const format::TrainData>(format::test::full_train(kSamples)),
                     "4-1");
}

/// What an export of the dump says, and how its import differs from it.
struct Journey {
  std::string refused;
  std::vector<std::string> left_out;
  std::vector<std::string> lost;  // fields
};

Journey through(const std::string& to, const Datasets& rollout, const Datasets& train) {
  const TemporaryFolder folder;
  format::DumpWriter writer = format::DumpWriter::create(folder / "dump", R"({"ranks":1})");
  writer.append(kUnits[0], rollout);
  if (!train.empty()) writer.append(kUnits[1], train);
  writer.seal();
  Journey out;
  ExportOptions options;
  options.dump = folder / "dump";
  options.to = to;
  options.output = folder / (to == "jsonl" ? "out.jsonl" : "out");
  try {
    out.left_out = export_dump(options).left_out;
  } catch (const Error& error) {
    const bool damaged = error.code() == ErrorCode::kCorrupt;  // by the format's rules
    CHECK((damaged || error.code() == ErrorCode::kUnsupported));
    out.refused = error.what();
    return out;
  }
  ImportOptions in;
  in.paths = {options.output};
  in.output = folder / "again";
  try {
    import_dump(in);
  } catch (const Error& error) {
    // What an export takes as it is may be a column without its own offsets: no dump may have it.
    CHECK(error.code() == ErrorCode::kCorrupt);
    CHECK(std::string(error.what()).find("version_offsets is missing") != std::string::npos);
    out.refused = error.what();
    return out;
  }
  const DumpReader before = DumpReader::open(folder / "dump");
  const DumpReader after = DumpReader::open(folder / "again");
  const std::string kinds[] = {"rollout", "train"};
  for (size_t i = 0; i < (train.empty() ? 1 : 2); ++i) {
    auto had = read_fields(before, kinds[i], kGroups[i]);
    const auto has = read_fields(after, kinds[i], kGroups[i]);
    for (const auto& [name, hash] : has) had.emplace(name, Hash());
    for (const auto& [name, hash] : had) {
      const auto at = has.find(name);
      if (at == has.end() || at->second != hash) out.lost.push_back(name);
    }
  }
  return out;
}

/// Whether one of the lines begins with the name of a column.
bool names(const std::vector<std::string>& lines, const std::string& column) {
  return std::ranges::any_of(lines, [&](const std::string& line) {
    return line.starts_with(column + " ") || line.starts_with(column + ",");
  });
}

/// Journeys that said nothing of what they lost, and those that gave everything back.
struct Seen {
  size_t whole = 0, named = 0, refused = 0;
};

void judge(const std::string& to, const Datasets& rollout, const Datasets& train, Seen& seen) {
  const Journey journey = through(to, rollout, train);
  if (!journey.refused.empty()) {
    ++seen.refused;
    return;
  }
  ++(journey.lost.empty() ? seen.whole : seen.named);
  for (const std::string& field : journey.lost) {
    INFO("the import gives " << field << " otherwise");
    CHECK(names(journey.left_out, field));
  }
}

Dataset mask(const Dataset& of, const std::vector<uint8_t>& present) {
  return format::dataset_of(of.path + "_present", DType::kU8, {present.size()}, present);
}

/// A group without a dataset; with a mask beside it; with it beside what no group lacks.
std::vector<std::pair<std::string, Datasets>> variants(const Datasets& all, const Dataset& one) {
  Datasets without = all, alone;
  std::erase_if(without, [&](const Dataset& other) { return other.path == one.path; });
  for (const Dataset& other : all) {
    const std::string_view name = name_of(other);
    const bool needed = name == "sample_id" || name == "offsets" ||
                        (name == "tokens" && one.path.starts_with("4/"));
    if (needed || other.path == one.path) alone.push_back(other);
  }
  Datasets some = all, none = all;
  const auto has_mask = [&](const Dataset& other) { return other.path == one.path + "_present"; };
  std::erase_if(some, has_mask);
  std::erase_if(none, has_mask);
  some.push_back(mask(one, {1, 0, 1}));
  none.push_back(mask(one, {0, 0, 0}));
  return {{"without", without}, {"alone", alone}, {"of some", some}, {"of none", none}};
}

TEST_CASE("every column of the tables is in the groups that are tried") {
  for (const format::KnownDataset& known : format::known_datasets()) {
    const bool of_samples = known.kind == "rollout" || known.kind == "train";
    const bool apart = known.name.starts_with("events/") || known.name == "coordinates" ||
                       known.name == "slices" || known.name == "slice_offsets" ||
                       known.name == "lengths";
    if (!of_samples || apart) continue;
    INFO(known.kind << " " << known.name);
    const Datasets all = known.kind == "rollout" ? rollout() : train();
    CHECK(std::ranges::any_of(all, [&](const Dataset& of) { return name_of(of) == known.name; }));
  }
}

/// All groups with a rollout like `rollout`, and those with a step like `train` (none: no step).
Seen judge_all(const std::string& to, const Datasets& train) {
  Seen seen;
  judge(to, rollout(), train, seen);
  CHECK(seen.whole == 1);
  for (const Dataset& one : rollout()) {
    for (const auto& [what, datasets] : variants(rollout(), one)) {
      INFO(one.path << " " << what);
      judge(to, datasets, train, seen);
    }
  }
  for (const Dataset& one : train) {
    for (const auto& [what, datasets] : variants(train, one)) {
      INFO(one.path << " " << what);
      judge(to, rollout(), datasets, seen);
    }
  }
  return seen;
}

/// The full rollout, of whose second sample masks say that a column has no value.
format::RolloutData read_masked(std::vector<const char*> columns) {
  const TemporaryFolder folder;
  Datasets datasets = rollout();
  for (const char* column : columns) {
    const auto of = std::ranges::find(datasets, std::string_view(column), name_of);
    REQUIRE(of != datasets.end());
    datasets.push_back(mask(*of, {1, 0, 1}));
  }
  format::DumpWriter writer = format::DumpWriter::create(folder / "dump", R"({"ranks":1})");
  writer.append(kUnits[0], datasets);
  writer.seal();
  auto read = format::find_rollout_data(DumpReader::open(folder / "dump"), 4);
  REQUIRE(read);
  return *read;
}

TEST_CASE("of a sample without a value a column is read as not known, or as nothing") {
  using format::Finish;
  const format::RolloutData whole = format::test::full_rollout(kSamples);
  const auto second = [&](const auto& column, size_t width) {
    return std::vector(column.begin() + static_cast<ptrdiff_t>(whole.offsets[1] * width),
                       column.begin() + static_cast<ptrdiff_t>(whole.offsets[2] * width));
  };
  CHECK(read_masked({"finish"}).finish ==
        std::vector{Finish::kLength, Finish::kUnknown, Finish::kLength});
  const auto versions = *read_masked({"versions"}).versions;
  CHECK(versions.versions == std::vector<int64_t>{0, -2});
  CHECK(versions.offsets == std::vector<uint64_t>{0, 1, 1, 2});
  CHECK(versions.starts->size() == 2);
  REQUIRE(whole.calls->offsets == std::vector<uint64_t>{0, 0, 1, 3});
  for (const char* part : {"call_first", "call_length"}) {
    const auto calls = *read_masked({part}).calls;
    CHECK(calls.offsets == std::vector<uint64_t>{0, 0, 0, 2});
    CHECK(calls.numbers->values.size() == 4);
    CHECK(calls.seed->size() == 2);
  }
  const auto calls = *read_masked({"call_finish", "call_truncated", "call_numbers"}).calls;
  CHECK(calls.finish == std::vector{Finish::kUnknown, Finish::kStop, Finish::kStop});
  CHECK(calls.truncated->front() == 255);
  CHECK(std::isnan(calls.numbers->values[1]));
  CHECK(calls.numbers->values[2] == 0.7);
  const auto experts = *read_masked({"experts", "expert_gates"}).experts;
  CHECK(std::ranges::count(second(*experts.recorded, 1), 1) == 0);
  for (const float gate : second(*experts.gates, 6)) CHECK(std::isnan(gate));
  CHECK(experts.recorded->back() == whole.experts->recorded->back());
}

TEST_CASE("a column that all samples have or none is refused where some have it") {
  for (const char* column : {"prompt_length", "tokens", "call_seed", "version_starts"}) {
    INFO(column);
    try {
      static_cast<void>(read_masked({column}));
      FAIL("it was read");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnsupported);
      CHECK(error.where() == std::string("rollout/4.h5:4/") + column + "_present");
      CHECK(std::string(error.what()).find("the sample in row 1 has no " + std::string(column)) !=
            std::string::npos);
    }
  }
}

TEST_CASE("lines of JSON give back what they do not name as left out") {
  const Seen seen = judge_all("jsonl", train());
  INFO(seen.whole << " whole, " << seen.named << " named, " << seen.refused << " refused");
  CHECK(seen.whole > 100);
  CHECK(seen.named > 100);
}

TEST_CASE("a rollout's file of slime gives back what it does not name as left out") {
  const Seen seen = judge_all("slime", {});
  INFO(seen.whole << " whole, " << seen.named << " named, " << seen.refused << " refused");
  CHECK(seen.whole > 80);
}

}  // namespace
}  // namespace rlreplay::replay

// Dumps in the forms of the frameworks go in and out again without loss.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "format/dump_reader.h"
#include "format/foreign/canonical_json.h"
#include "format/foreign/torch_file.h"
#include "format/rollout_data.h"
#include "format/verify.h"
#include "src/replay/exchange/export.h"
#include "src/replay/exchange/import.h"
#include "tests/format/support.h"
#include "tests/material.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;
using format::test::TemporaryFolder;

std::vector<fs::path> runs() {
  std::vector<fs::path> found;
  for (const fs::path& folder : test::material_folders()) {
    for (const char* name : {"slime-latest", "slime-old", "slime-2025", "miles-latest", "relax"}) {
      for (const auto& run : fs::directory_iterator(folder / "dumps" / name)) {
        found.push_back(run.path());
      }
    }
  }
  REQUIRE(found.size() >= 14);
  return found;
}

std::string vendor_of(const fs::path& run) {
  const std::string name = run.parent_path().filename().string();
  return name.substr(0, name.find('-'));
}

/// The JSON of a file without what says where in it a tensor lies.
std::string content(const fs::path& path) {
  const foreign::TorchFile file(path.string());
  std::string json;
  write_canonical_json(file.tree(), file.root(), [&](std::string_view piece) { json += piece; });
  for (const auto& [from, to] :
       {std::pair(",\"record\":", ",\"location\":"), std::pair(",\"offset\":", ",\"hex\":")}) {
    for (size_t at = 0; (at = json.find(from, at)) != std::string::npos;) {
      json.erase(at, json.find(to, at) - at);
    }
  }
  return json;
}

/// The files of a run, by their names below it.
std::vector<std::string> torch_files(const fs::path& run) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    if (entry.path().extension() == ".pt") {
      names.push_back(fs::relative(entry.path(), run).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The contents of rollout and train units.
std::map<std::string, Hash> contents(const format::DumpReader& dump) {
  std::map<std::string, Hash> found;
  for (const format::UnitRecord& unit : dump.units()) {
    const std::string_view kind = format::kind_of(unit.path);
    if (kind == "rollout" || kind == "train") found[unit.path] = unit.content;
  }
  return found;
}

ImportReport import_to(const std::string& from, const std::string& to) {
  ImportOptions options;
  options.paths = {from};
  options.output = to;
  return import_dump(options);
}

TEST_CASE("every run is imported, verifies, and is exported as it was") {
  for (const fs::path& run : runs()) {
    INFO(run.string());
    const TemporaryFolder folder;
    const ImportReport report = import_to(run.string(), folder / "dump");
    CHECK(report.files.size() == torch_files(run).size());
    const format::VerifyReport verified = format::verify(folder / "dump", true);
    CHECK(verified.problems.empty());
    CHECK(verified.complete);
    CHECK(verified.whole_steps == report.steps);
    const format::DumpReader dump = format::DumpReader::open(folder / "dump");
    const std::string out = folder / "out";
    export_torch(dump, vendor_of(run), out, {});
    REQUIRE(torch_files(out) == torch_files(run));
    for (const std::string& name : torch_files(run)) {
      INFO(name);
      CHECK(content(fs::path(out) / name) == content(run / name));
    }
    import_to(out, folder / "again");
    const format::DumpReader again = format::DumpReader::open(folder / "again");
    CHECK(contents(again) == contents(dump));
    CHECK(again.root() == dump.root());
  }
}

TEST_CASE("what a dump holds in its own tables is not kept a second time") {
  for (const fs::path& run : runs()) {
    if (run.filename() != "grpo-dp2") continue;
    INFO(run.string());
    const TemporaryFolder folder;
    import_to(run.string(), folder / "dump");
    const format::DumpReader dump = format::DumpReader::open(folder / "dump");
    std::string pickles;
    for (const format::UnitRecord& record : dump.units()) {
      if (!record.path.starts_with("x-") || record.path.starts_with("x-findings/")) continue;
      const format::UnitReader unit = dump.open_unit(record);
      const format::StoredDataset* pickle = unit.find(record.groups.front() + "/pickle");
      REQUIRE(pickle != nullptr);
      const auto bytes = dump.read(unit, *pickle);
      pickles.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    for (const char* place :
         {"rollout/0/tokens/7", "rollout/0/log_probs/7", "rollout/0/response_text/7",
          "/tokens/0/int64", "/old_log_probs/0/float32", "/returns/0/float32"}) {
      const bool lists = run.parent_path().filename() == "relax" && std::string(place)[0] == '/';
      if (!lists) CHECK(pickles.find(place) != pickles.npos);
    }
  }
}

void check_refusals(const fs::path& hostile) {
  size_t refused = 0;
  for (const auto& entry : fs::directory_iterator(hostile)) {
    if (entry.path().extension() != ".pt") continue;
    INFO(entry.path().string());
    const TemporaryFolder folder;
    try {
      import_to(entry.path().string(), folder / "dump");
      CHECK(format::verify(folder / "dump", true).problems.empty());
    } catch (const Error& error) {
      CHECK(exit_code(error.code()) < 70);
      CHECK_FALSE(fs::exists(folder / "dump"));
      ++refused;
    }
  }
  CHECK(refused >= 100);
}

TEST_CASE("a file that is refused leaves nothing behind") {
  for (const fs::path& folder : test::material_folders()) {
    check_refusals(folder / "dumps" / "hostile");
  }
}

TEST_CASE("an error in a later file removes what earlier ones left") {
  const std::vector<fs::path> found = runs();
  const TemporaryFolder folder;
  fs::copy(found[0], folder / "run", fs::copy_options::recursive);
  format::test::write_text(folder / "run/zzz.pt", "no archive");
  CHECK_THROWS_AS(import_to(folder / "run", folder / "dump"), Error);
  CHECK_FALSE(fs::exists(folder / "dump"));
}

TEST_CASE("JSON lines give the same content again") {
  for (const fs::path& run : runs()) {
    INFO(run.string());
    const TemporaryFolder folder;
    import_to(run.string(), folder / "dump");
    ExportOptions options;
    options.dump = folder / "dump";
    options.to = "jsonl";
    options.output = folder / "lines.jsonl";
    export_dump(options);
    import_to(options.output, folder / "again");
    CHECK(contents(format::DumpReader::open(folder / "again")) ==
          contents(format::DumpReader::open(folder / "dump")));
  }
}

TEST_CASE("a selected sample brings its group along") {
  const std::vector<fs::path> found = runs();
  for (const fs::path& run : found) {
    if (run.filename() != "grpo-dp2") continue;
    INFO(run.string());
    const TemporaryFolder folder;
    import_to((run / "rollout_data").string(), folder / "dump");
    Selection selection;
    selection.samples = {5};
    const format::DumpReader dump = format::DumpReader::open(folder / "dump");
    const auto files =
        export_torch(dump, vendor_of(run), folder / "out", choose_samples(dump, selection, ""))
            .files;
    const format::RolloutData whole = *find_rollout_data(dump, 0);
    const uint64_t group = whole.group_id->values[5];
    import_to(files.front(), folder / "part");
    const auto part = find_rollout_data(format::DumpReader::open(folder / "part"), 0);
    const auto& groups = whole.group_id->values;
    CHECK(part->size() == static_cast<size_t>(std::count(groups.begin(), groups.end(), group)));
    CHECK(std::count(part->sample_id.begin(), part->sample_id.end(), 5u) == 1);
  }
}

}  // namespace
}  // namespace rlreplay::replay

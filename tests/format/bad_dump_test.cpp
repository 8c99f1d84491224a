#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "format/verify.h"
#include "tests/format/forge.h"
#include "tests/golden.h"

/// Damaged dumps, kept as they were forged once: what is said of them, with the place, is what
/// people search for and scripts match. rules_test forges them anew and asks for the rule alone.
/// tests/golden/bad holds a sound dump, and for each rule the files that break it, an empty one for
/// a file that is gone.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;
using rlreplay::test::records;

namespace {

namespace fs = std::filesystem;

const fs::path kBad = RLREPLAY_SOURCE "/tests/golden/bad";

/// A rule whose breach is a set of small regular files, which version control can keep.
bool can_be_kept(Rule rule) {
  return rule != Rule::kFileType && rule != Rule::kUnitType && rule != Rule::kFileSize &&
         rule != Rule::kUnitLimit;
}

/// What verify says, a problem a line: rule, file, dataset, byte, message.
std::string problems_of(const fs::path& dump) {
  ReaderOptions options;
  options.threads = 1;
  std::string out;
  for (const Problem& problem : verify(dump.string(), true, options).problems) {
    const std::string path = problem.path == dump.string() ? "." : problem.path;
    out += std::string(to_string(problem.rule)) + "\t" + path + "\t" + problem.dataset + "\t" +
           (problem.offset ? std::to_string(*problem.offset) : "-") + "\t" + problem.message + "\n";
  }
  return out;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Keeps of a dump what differs from the sound one.
void keep(const fs::path& dump, const fs::path& to) {
  const fs::path sound = kBad / "sound";
  for (const auto& entry : fs::recursive_directory_iterator(sound)) {
    const fs::path name = fs::relative(entry.path(), sound);
    if (!entry.is_regular_file() || fs::exists(dump / name)) continue;
    fs::create_directories((to / name).parent_path());
    std::ofstream(to / name).flush();
  }
  for (const auto& entry : fs::recursive_directory_iterator(dump)) {
    const fs::path name = fs::relative(entry.path(), dump);
    if (!entry.is_regular_file() || text_of(sound / name) == text_of(entry.path())) continue;
    fs::create_directories((to / name).parent_path());
    fs::copy_file(entry.path(), to / name);
  }
}

/// The dump that a rule's files make of the sound one.
void assemble(const fs::path& from, const fs::path& dump) {
  fs::copy(kBad / "sound", dump, fs::copy_options::recursive);
  fs::copy(from, dump, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (entry.is_regular_file() && entry.file_size() == 0) {
      fs::remove(dump / fs::relative(entry.path(), from));
    }
  }
}

void record(Rule rule, const fs::path& to) {
  TemporaryFolder folder;
  if (!fs::exists(kBad / "sound")) Forge({}).write_sealed((kBad / "sound").string());
  const bool of_journal = rule == Rule::kChain || rule == Rule::kWriter;
  of_journal ? Forge({rule}).write_unfinished(folder / "d")
             : Forge({rule}).write_sealed(folder / "d");
  // An empty file stands for one that is not there.
  if (of_journal) std::ofstream(folder / "d/INCOMPLETE") << "unfinished\n";
  keep(folder / "d", to);
}

}  // namespace

TEST_CASE("of each kept dump that breaks a rule the same is said as ever") {
  int kept = 0;
  for (int i = 0; i <= static_cast<int>(Rule::kUnlisted); ++i) {
    const auto rule = static_cast<Rule>(i);
    if (!can_be_kept(rule)) continue;
    const std::string name(to_string(rule));
    CAPTURE(name);
    const fs::path files = kBad / name, said = kBad / (name + ".txt");
    if (records() && !fs::exists(files)) record(rule, files);
    REQUIRE(fs::exists(files));
    TemporaryFolder folder;
    assemble(files, folder / "d");
    const std::string problems = problems_of(folder / "d");
    if (records()) std::ofstream(said) << problems;
    CHECK(problems.starts_with(name + "\t"));
    CHECK(problems == text_of(said));
    ++kept;
  }
  CHECK(kept == 37);
}

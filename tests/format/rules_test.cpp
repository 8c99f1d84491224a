#include <catch2/catch.hpp>
#include <type_traits>
#include <vector>

#include "format/checked_image.h"
#include "format/faults.h"
#include "format/manifest.h"
#include "format/verify.h"
#include "tests/format/forge.h"

/// Every rule of SPEC.md, broken alone and together with every later one.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

std::vector<Rule> all_rules() {
  std::vector<Rule> all;
  for (int i = 0; i <= static_cast<int>(Rule::kUnlisted); ++i) all.push_back(static_cast<Rule>(i));
  return all;
}

/// Whether only an unfinished dump can break it, whose journals are parsed.
bool is_journals(Rule rule) { return rule == Rule::kChain || rule == Rule::kWriter; }

/// The first rule that a reader reports.
std::string first_rule(const std::string& path, const std::set<Rule>& broken) {
  ReaderOptions options;
  options.threads = 1;
  if (broken.contains(Rule::kUnitLimit)) options.unit_bytes = 1000;
  const VerifyReport report = verify(path, true, options);
  return report.problems.empty() ? "none" : std::string(to_string(report.problems[0].rule));
}

std::string judge_sealed(const std::set<Rule>& broken, Cut cut = Cut::kOldShard) {
  TemporaryFolder folder;
  Forge(broken, cut).write_sealed(folder / "d");
  return first_rule(folder / "d", broken);
}

std::string judge_unfinished(const std::set<Rule>& broken) {
  TemporaryFolder folder;
  Forge(broken).write_unfinished(folder / "d");
  return first_rule(folder / "d", broken);
}

}  // namespace

TEST_CASE("each rule, broken alone in a sound dump, is the one that is reported") {
  CHECK(judge_sealed({}) == "none");
  for (const Rule rule : all_rules()) {
    if (!is_journals(rule)) CHECK(judge_sealed({rule}) == to_string(rule));
  }
}

TEST_CASE("of two broken rules the earlier one is reported") {
  for (const Rule first : all_rules()) {
    for (const Rule second : all_rules()) {
      if (second <= first || is_journals(first) || is_journals(second)) continue;
      INFO(to_string(first) << " and " << to_string(second));
      CHECK(judge_sealed({first, second}) == to_string(first));
    }
  }
}

std::vector<Cut> all_cuts() {
  std::vector<Cut> all;
  for (int i = 0; i <= static_cast<int>(kLastCut); ++i) all.push_back(static_cast<Cut>(i));
  return all;
}

TEST_CASE("each way in which a part cannot be one breaks the rule of meaning") {
  for (const Cut cut : all_cuts()) {
    INFO("cut " << static_cast<int>(cut));
    CHECK(judge_sealed({}, cut) == "none");
    CHECK(judge_sealed({Rule::kMeaning}, cut) == "meaning");
  }
}

/// Units are read one after the other, all of them before what several say of one tensor.
bool is_reported_before(Rule rule, Cut cut) {
  if (is_of_slices(cut)) return rule <= Rule::kUnitLimit;  // which both of its units break
  return rule < Rule::kMeaning;
}

TEST_CASE("a part that cannot be one is reported behind earlier rules and before later ones") {
  for (const Cut cut : all_cuts()) {
    for (const Rule rule : all_rules()) {
      if (rule == Rule::kMeaning || is_journals(rule)) continue;
      INFO(to_string(rule) << " and cut " << static_cast<int>(cut));
      const std::string first =
          is_reported_before(rule, cut) ? std::string(to_string(rule)) : "meaning";
      CHECK(judge_sealed({rule, Rule::kMeaning}, cut) == first);
    }
  }
}

TEST_CASE("every dataset with a wrong hash is named") {
  TemporaryFolder folder;
  Forge({Rule::kDatasetHash}).write_sealed(folder / "d");
  std::vector<std::string> named;
  for (const Problem& problem : verify(folder / "d", true, {}).problems) {
    CHECK(problem.rule == Rule::kDatasetHash);
    named.push_back(problem.dataset);
  }
  CHECK(named == std::vector<std::string>{"1-0/parameters/u", "1-0/parameters/v"});
}

TEST_CASE("the rules of a journal are checked in their order, whatever the order of its lines") {
  const std::vector<Rule> rules = {Rule::kRecordSyntax, Rule::kRecordHash, Rule::kRecordForm,
                                   Rule::kFormatName,   Rule::kVersion,    Rule::kSchema,
                                   Rule::kUnitPath,     Rule::kChain,      Rule::kMustUnderstand,
                                   Rule::kWriter,       Rule::kDuplicate};
  CHECK(judge_unfinished({}) == "none");
  for (const Rule first : rules) {
    CHECK(judge_unfinished({first}) == to_string(first));
    for (const Rule second : rules) {
      if (second <= first) continue;
      INFO(to_string(first) << " and " << to_string(second));
      CHECK(judge_unfinished({first, second}) == to_string(first));
    }
  }
}

TEST_CASE("a breach's kind decides the exit code") {
  const auto code = [](Rule rule) { return exit_code(FormatError(rule, "", "").code()); };
  for (const Rule rule : all_rules()) {
    const bool refused = rule == Rule::kVersion || rule == Rule::kMustUnderstand ||
                         rule == Rule::kUnitCount || rule == Rule::kUnitLimit ||
                         rule == Rule::kObjectLimit || rule == Rule::kDataLimit;
    INFO(to_string(rule));
    CHECK(code(rule) == (refused ? 4 : 3));
  }
}

TEST_CASE("the reader of HDF5 can be given checked bytes only") {
  using Door = decltype(&h5::contents_of);
  using Limits = const h5::Limits&;
  STATIC_REQUIRE(std::is_invocable_v<Door, const CheckedImage&, Limits, std::string, Faults&>);
  using Raw = std::span<const std::byte>;
  STATIC_REQUIRE(!std::is_invocable_v<Door, Raw, Limits, std::string, Faults&>);
  STATIC_REQUIRE(!std::is_default_constructible_v<CheckedImage>);
  STATIC_REQUIRE(!std::is_constructible_v<CheckedImage, Buffer<std::byte>>);
  Buffer<std::byte> bytes(100);
  CHECK_THROWS_AS(CheckedImage(std::move(bytes), 100, Hash{}, "x"), FormatError);
}

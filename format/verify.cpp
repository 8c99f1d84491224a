#include "format/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "format/folder.h"
#include "format/meaning.h"
#include "format/record.h"

namespace rlreplay::format {
namespace {

/// What a value means is asked only where every value is what was written.
void check_deep(const DumpReader& dump, const UnitReader& unit, VerifyReport& report) {
  std::vector<Problem> problems;
  for (const StoredDataset& dataset : unit.datasets()) {
    try {
      dump.read(unit, dataset);
    } catch (const FormatError& e) {
      problems.push_back(e.problem());
    }
  }
  if (problems.empty()) check_meaning(unit, problems);
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.rule < b.rule; });
  report.problems.insert(report.problems.end(), problems.begin(), problems.end());
}

/// Whether nothing is wrong with the unit.
bool check_unit(const DumpReader& dump, const UnitRecord& record, bool deep, VerifyReport& report) {
  const size_t before = report.problems.size();
  try {
    if (deep) {
      check_deep(dump, dump.open_unit(record), report);
    } else {
      dump.check_unit(record);
    }
  } catch (const FormatError& e) {
    report.problems.push_back(e.problem());
  }
  return report.problems.size() == before;
}

void report_unlisted(const std::string& path, const DumpReader& dump, VerifyReport& report) {
  std::set<std::string_view> known = {"manifest.json", "journal.jsonl", "INCOMPLETE"};
  for (const UnitRecord& unit : dump.units()) known.insert(unit.path);
  for (const std::string& file : Folder::open(path).list()) {
    if (known.contains(file)) continue;
    // A writer at work, or one that died, leaves its unfinished file behind: no finding.
    if (!dump.sealed() && file.ends_with(kTemporarySuffix)) continue;
    report.problems.push_back(
        {Rule::kUnlisted, file, "",
         dump.sealed() ? "no record names this file" : "no record acknowledges this file"});
  }
}

}  // namespace

VerifyReport verify(const std::string& path, bool deep, const ReaderOptions& options) {
  VerifyReport report;
  try {
    const DumpReader dump = DumpReader::open(path, options);
    report.sealed = dump.sealed();
    report.complete = dump.complete();
    report.root = dump.root();
    report.units = dump.units().size();
    std::map<std::string, int64_t> whole_ranks;
    for (const UnitRecord& unit : dump.units()) {
      if (!check_unit(dump, unit, deep, report)) continue;
      ++report.whole_units;
      if (kind_of(unit.path) != "train") continue;
      for (const std::string& step : unit.groups) ++whole_ranks[step];
    }
    const int64_t ranks = ranks_of(dump.meta());
    for (const auto& [step, whole] : whole_ranks) report.whole_steps += whole >= ranks;
    report_unlisted(path, dump, report);
  } catch (const FormatError& e) {
    report.problems.push_back(e.problem());
  }
  return report;
}

}  // namespace rlreplay::format

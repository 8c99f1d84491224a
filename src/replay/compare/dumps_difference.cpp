#include "src/replay/compare/dumps_difference.h"

#include <algorithm>
#include <iterator>

#include "format/dump_content.h"
#include "format/rule.h"
#include "src/replay/compare/dump_causes.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/import_findings.h"

namespace rlreplay::replay {
namespace {

/// Whether its records say something else than its units.
bool belies_itself(const RecordedRun& run) {
  const format::DumpReader& dump = run.dump();
  return std::ranges::any_of(dump.units(), [&](const format::UnitRecord& record) {
    const std::string_view kind = format::kind_of(record.path);
    return std::ranges::any_of(record.group_contents, [&](const auto& said) {
      return dump.find(kind, said.first).size() == 1 &&
             !(format::hash_of_fields(format::read_fields(dump, kind, said.first)) == said.second);
    });
  });
}

/// The path of the one of two dumps that belies itself, or both.
std::string who_belies(const RecordedRun& a, const RecordedRun& b) {
  const bool of_a = belies_itself(a), of_b = belies_itself(b);
  if (of_a == of_b) return a.path() + (of_a ? " and " : " or ") + b.path();
  return of_a ? a.path() : b.path();
}

/// Both ways of judging must agree: else a record says something else than its unit.
void add_content(const RecordedRun& a, const RecordedRun& b, DumpsDifference& difference) {
  auto in_a = recorded_content_root(a.dump()), in_b = recorded_content_root(b.dump());
  if (!in_a || !in_b) {
    if (!difference.identical()) return;
    in_a = content_root(a.dump());  // what records do not say must be read to be called identical
    in_b = content_root(b.dump());
  }
  difference.content.emplace(*in_a, *in_b);
  if ((*in_a == *in_b) == difference.identical()) return;
  throw format::FormatError(format::Rule::kContent,
                            "a record says something else of a group than its unit holds: "
                            "rlreplay verify --deep names it",
                            who_belies(a, b));
}

void add_notes(const std::string& name, const format::DumpReader& dump,
               std::vector<std::string>& notes) {
  if (!dump.sealed()) {
    notes.push_back(name + " is unfinished: what is whole of it was compared");
  } else if (!dump.complete()) {
    notes.push_back(name + " was closed after its writer had died");
  }
  for (const foreign::Problem& found : replaced_ids(dump)) {
    notes.push_back("sample ids of " + name + " are not those of its files: " + found.message +
                    " (" + found.where + ")");
  }
}

void add_order(const DataDifference& data, std::vector<std::string>& notes) {
  if (data.reordered.empty()) return;
  std::string where = data.reordered.front();
  if (data.reordered.size() > 1) {
    where += " and " + std::to_string(data.reordered.size() - 1) + " more";
  }
  notes.push_back("the samples of " + where +
                  " stand in another order, which is no part of the content");
}

/// Why, and where in the run: events of the first step that differs, with the element where it can
/// be computed.
void explain(const RecordedRun& a, const RecordedRun& b, const ElementFinder& find_element,
             DumpsDifference& difference) {
  const DataDifference& data = difference.data;
  format::GroupName at{INT64_MAX, std::nullopt};
  if (data.first) at = {data.first->rollout_id, data.first->step_id};
  if (!difference.a_imported && !difference.b_imported) {
    difference.events = compare_runs(a, b, EqualContent::kSkip);
    RunDifference& events = *difference.events;
    if (!events.skipped.empty()) {
      difference.notes.push_back("events: " + events.skipped + " (" + events.skipped_in + ")");
    }
    if (find_element) difference.element = find_element(a, b, events.step);
    if (!events.step.identical()) {
      at = {events.step.origin->rollout_id, events.step.origin->step_id};
    }
  } else if (!data.groups_differing.empty()) {
    difference.notes.push_back("the operation in which they part is not known: " +
                               std::string(difference.a_imported ? "A" : "B") +
                               " was imported, without events and weights");
  }
  difference.causes = find_causes(a.dump(), b.dump(), data, at);
}

}  // namespace

DumpsDifference compare_dumps(const RecordedRun& a, const RecordedRun& b,
                              const DiffOptions& options, const ElementFinder& find_element,
                              const KeptFinder& find_kept) {
  DumpsDifference difference;
  difference.data = compare_data(a.dump(), b.dump(), options);
  difference.within =
      !difference.data.identical && !options.tolerance.empty() && difference.data.within_tolerance;
  difference.a_imported = a.is_imported();
  difference.b_imported = b.is_imported();
  add_content(a, b, difference);
  add_notes("A", a.dump(), difference.notes);
  add_notes("B", b.dump(), difference.notes);
  difference.beside = compare_beside(a.dump(), b.dump(), find_kept);
  std::ranges::copy(difference.beside.notes, std::back_inserter(difference.notes));
  add_order(difference.data, difference.notes);
  if (difference.within) {
    difference.notes.push_back(
        "with a tolerance, columns and scalars decide; options, events and states do not");
  }
  if (!difference.identical()) explain(a, b, find_element, difference);
  return difference;
}

}  // namespace rlreplay::replay

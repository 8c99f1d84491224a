#include "src/replay/compare/dumps_difference.h"

#include <algorithm>

#include "format/dump_content.h"
#include "format/rule.h"
#include "src/replay/compare/dump_causes.h"
#include "src/replay/record/content_root.h"

namespace rlreplay::replay {
namespace {

/// The content roots, where no group must be read for them.
std::optional<Hash> stored_content(const format::DumpReader& dump) {
  for (const auto& [kind, group] : format::content_groups(dump)) {
    const auto units = dump.find(kind, group);
    if (units.size() != 1 || !units.front()->group_contents.contains(group)) return std::nullopt;
  }
  return content_root(dump);
}

/// Both ways of judging must agree: else a record says something else than its unit.
void add_content(const RecordedRun& a, const RecordedRun& b, DumpsDifference& difference) {
  const auto in_a = stored_content(a.dump()), in_b = stored_content(b.dump());
  if (!in_a || !in_b) return;
  difference.content.emplace(*in_a, *in_b);
  if ((*in_a == *in_b) == difference.identical()) return;
  throw format::FormatError(format::Rule::kContent,
                            "a record says something else of a group than its unit holds: "
                            "rlreplay verify --deep names it",
                            a.path() + " or " + b.path());
}

/// Which of the two was not captured here; empty if both were.
std::string imported_side(const RecordedRun& a, const RecordedRun& b) {
  if (imported_from(a.dump().meta(), a.path())) return "A";
  return imported_from(b.dump().meta(), b.path()) ? "B" : "";
}

void add_notes(const std::string& name, const format::DumpReader& dump,
               std::vector<std::string>& notes) {
  if (!dump.sealed()) {
    notes.push_back(name + " is unfinished: what is whole of it was compared");
  } else if (!dump.complete()) {
    notes.push_back(name + " was closed after its writer had died");
  }
  const bool extensions = std::ranges::any_of(
      dump.units(), [](const auto& unit) { return unit.path.starts_with("x-"); });
  if (extensions) {
    notes.push_back("what " + name + " keeps of foreign files in x- units was not compared");
  }
}

/// Why, and where in the run: events of the first step that differs, with the element where it can
/// be computed.
void explain(const RecordedRun& a, const RecordedRun& b, const ElementFinder& find_element,
             DumpsDifference& difference) {
  const DataDifference& data = difference.data;
  format::GroupName at{INT64_MAX, std::nullopt};
  if (data.first) at = {data.first->rollout_id, data.first->step_id};
  const std::string imported = imported_side(a, b);
  if (imported.empty()) {
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
    difference.notes.push_back("the operation in which they part is not known: " + imported +
                               " was imported, without events and weights");
  }
  difference.causes = find_causes(a.dump(), b.dump(), data, at);
}

}  // namespace

DumpsDifference compare_dumps(const RecordedRun& a, const RecordedRun& b,
                              const DiffOptions& options, const ElementFinder& find_element) {
  DumpsDifference difference;
  difference.data = compare_data(a.dump(), b.dump(), options);
  difference.within =
      !difference.data.identical && !options.tolerance.empty() && difference.data.within_tolerance;
  add_content(a, b, difference);
  add_notes("A", a.dump(), difference.notes);
  add_notes("B", b.dump(), difference.notes);
  if (difference.within) {
    difference.notes.push_back(
        "with a tolerance, columns and scalars decide; options, events and states do not");
  }
  if (!difference.identical()) explain(a, b, find_element, difference);
  return difference;
}

}  // namespace rlreplay::replay

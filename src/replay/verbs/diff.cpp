#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>

#include "format/dump_content.h"
#include "format/rule.h"
#include "src/base/shell_word.h"
#include "src/replay/content_root.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/dump_causes.h"
#include "src/replay/recomputed_difference.h"
#include "src/replay/verbs/diff_report.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct DiffArguments {
  std::string a, b;
  std::vector<std::string> tolerances;
  bool trust_hashes = false;
  bool all = false;
  bool json = false;
};

DiffOptions options_of(const DiffArguments& arguments) {
  DiffOptions options;
  options.trust_hashes = arguments.trust_hashes;
  for (const std::string& text : arguments.tolerances) {
    const size_t equals = text.find('=');
    double value = -1;
    const char* end = text.data() + text.size();
    const bool whole =
        equals != text.npos && std::from_chars(text.data() + equals + 1, end, value).ptr == end;
    if (!whole || !(value >= 0)) {
      throw Error(ErrorCode::kUsage,
                  "a tolerance is FIELD=NUMBER, as rewards=1e-6; of several fields each has a "
                  "--tolerance of its own",
                  text);
    }
    options.tolerance[text.substr(0, equals)] = value;
  }
  return options;
}

std::string tolerances_text(const DiffArguments& arguments) {
  std::string out;
  for (const std::string& text : arguments.tolerances) out += " --tolerance " + shell_word(text);
  return out;
}

std::string verdict(const DiffArguments& arguments, const DumpsDifference& difference) {
  if (difference.within) return "not identical, but within" + tolerances_text(arguments);
  if (!difference.identical()) return diff_verdict(difference);
  return arguments.trust_hashes ? "identical by recorded hashes; equal units were not read"
                                : "identical";
}

/// The content roots, where no group must be read for them.
std::optional<Hash> stored_content(const format::DumpReader& dump) {
  for (const auto& [kind, group] : format::content_groups(dump)) {
    const auto units = dump.find(kind, group);
    if (units.size() != 1 || !units.front()->group_contents.contains(group)) return std::nullopt;
  }
  return content_root(dump);
}

/// Both ways of judging must agree: else a record says something else than its unit.
void add_content(const AnyDump& a, const AnyDump& b, DumpsDifference& difference) {
  const auto in_a = stored_content(a.reader()), in_b = stored_content(b.reader());
  if (!in_a || !in_b) return;
  difference.content.emplace(*in_a, *in_b);
  if ((*in_a == *in_b) == difference.identical()) return;
  throw format::FormatError(format::Rule::kContent,
                            "a record says something else of a group than its unit holds: "
                            "rlreplay verify --deep names it",
                            a.path() + " or " + b.path());
}

/// Which of the two was not captured here; empty if both were.
std::string imported_side(const AnyDump& a, const AnyDump& b) {
  if (imported_from(a.reader().meta(), a.path())) return "A";
  return imported_from(b.reader().meta(), b.path()) ? "B" : "";
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
void explain(const AnyDump& a, const AnyDump& b, DumpsDifference& difference) {
  const DataDifference& data = difference.data;
  format::GroupName at{INT64_MAX, std::nullopt};
  if (data.first) at = {data.first->rollout_id, data.first->step_id};
  const std::string imported = imported_side(a, b);
  if (imported.empty()) {
    const RecordedRun &in_a = a.run(), &in_b = b.run();
    difference.events = compare_runs(in_a, in_b, EqualContent::kSkip);
    RunDifference& events = *difference.events;
    if (!events.skipped.empty()) {
      difference.notes.push_back("events: " + events.skipped + " (" + events.skipped_in + ")");
    }
    difference.element = find_element(in_a, in_b, events.step);
    if (!events.step.identical()) {
      at = {events.step.origin->rollout_id, events.step.origin->step_id};
    }
  } else if (!data.groups_differing.empty()) {
    difference.notes.push_back("the operation in which they part is not known: " + imported +
                               " was imported, without events and weights");
  }
  difference.causes = find_causes(a.reader(), b.reader(), data, at);
}

DumpsDifference compare(const DiffArguments& arguments, const AnyDump& a, const AnyDump& b) {
  const DiffOptions options = options_of(arguments);
  DumpsDifference difference;
  difference.data = compare_data(a.reader(), b.reader(), options);
  difference.within =
      !difference.data.identical && !options.tolerance.empty() && difference.data.within_tolerance;
  add_content(a, b, difference);
  add_notes("A", a.reader(), difference.notes);
  add_notes("B", b.reader(), difference.notes);
  if (difference.within) {
    difference.notes.push_back(
        "with a tolerance, columns and scalars decide; options, events and states do not");
  }
  if (!difference.identical()) explain(a, b, difference);
  return difference;
}

/// With the name of that of the two which cannot be read.
Error named(const AnyDump& a, const AnyDump& b, const Error& error) {
  if (!a.reads(error)) return a.named(error);
  if (!b.reads(error)) return b.named(error);
  const Error in_a = a.named(error), in_b = b.named(error);
  return in_a.where() == in_b.where()
             ? in_a
             : Error(error.code(), error.what(), in_a.where() + " or " + in_b.where());
}

DumpsDifference compare(const DiffArguments& arguments) {
  const AnyDump a(arguments.a), b(arguments.b);
  try {
    return compare(arguments, a, b);
  } catch (const Error& error) {
    throw named(a, b, error);
  }
}

int diff(const DiffArguments& arguments) {
  const DumpsDifference difference = compare(arguments);
  const std::string command = "rlreplay diff " + shell_word(arguments.a) + " " +
                              shell_word(arguments.b) + tolerances_text(arguments);
  std::cout << (arguments.json ? diff_json(difference) + "\n"
                               : diff_text(difference, verdict(arguments, difference), command,
                                           arguments.all));
  return difference.identical() || difference.within ? 0 : 1;
}

}  // namespace

void add_diff(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* verb = program.add_subcommand("diff", "The first difference of two dumps");
  verb->add_option("a", arguments->a, "a dump, or files of slime, Miles or Relax")->required();
  verb->add_option("b", arguments->b, "another")->required();
  verb->add_option("--tolerance", arguments->tolerances,
                   "FIELD=NUMBER: differences up to it count as none (repeatable)");
  verb->add_flag("--trust-hashes", arguments->trust_hashes,
                 "do not read units whose recorded hashes are equal");
  verb->add_flag("--all", arguments->all, "print all causes, fields, histograms and events");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Dumps are identical where their content roots are equal (format/SPEC.md section 7):\n"
      "options that can change bits, samples, columns, scalars, events, states. Samples are\n"
      "compared by id, whatever the numbers of ranks and however the dumps are stored; equal\n"
      "is equal to the bit, and a NaN equals a NaN. Every stored byte is held to its hash;\n"
      "units of equal content are not decoded. Times and other volatile things of foreign\n"
      "dumps are left out. With a tolerance, columns and scalars decide, and the verdict says\n"
      "so.\n\n"
      "What differs comes in the order of causes: options, versions and environment; state,\n"
      "prompts, tokens, rewards; events. Where captures were recorded too coarsely to show\n"
      "the element, the step is computed again on both sides.\n"
      "Exit code 1 where the dumps differ.\n\n"
      "Examples:\n  rlreplay diff runA/ runB/\n  rlreplay diff runA/ runB/ --tolerance "
      "advantages=1e-6");
  verb->callback([=, &chosen] { chosen = [=] { return diff(*arguments); }; });
}

}  // namespace rlreplay::replay

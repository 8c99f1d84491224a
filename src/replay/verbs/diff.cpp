#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <span>

#include "format/dump_content.h"
#include "format/rule.h"
#include "src/base/counted.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/ulps.h"
#include "src/base/wrap.h"
#include "src/engine/event_name.h"
#include "src/replay/content_root.h"
#include "src/replay/difference_report.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/data_difference.h"
#include "src/replay/run_difference.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kColumns = 80;

struct DiffArguments {
  std::string a, b;
  std::vector<std::string> tolerances;
  bool trust_hashes = false;
  bool all = false;
  bool json = false;
};

struct Difference {
  DataDifference data;
  std::optional<RunDifference> events;           // of two dumps of ours
  std::optional<std::pair<Hash, Hash>> content;  // where the dumps say it themselves
  std::vector<std::string> notes;                // what was not compared, and why
  bool within = false;                           // not identical, but within the tolerances given

  bool identical() const { return data.identical; }
};

DiffOptions options_of(const DiffArguments& arguments) {
  DiffOptions options;
  options.trust_hashes = arguments.trust_hashes;
  for (const std::string& text : arguments.tolerances) {
    const size_t equals = text.find('=');
    double value = -1;
    const char* end = text.data() + text.size();
    if (equals != text.npos) std::from_chars(text.data() + equals + 1, end, value);
    if (!(value >= 0)) {
      throw Error(ErrorCode::kUsage, "a tolerance is FIELD=NUMBER, as rewards=1e-6", text);
    }
    options.tolerance[text.substr(0, equals)] = value;
  }
  return options;
}

std::string optional_json(const std::optional<uint64_t>& value) {
  return value ? std::to_string(*value) : "null";
}

std::string place_json(const ValueDifference& at, const std::string& field) {
  return JsonLine()
      .integer("rollout_id", at.rollout_id)
      .json("step_id", at.step_id ? std::to_string(*at.step_id) : "null")
      .text("field", field)
      .json("sample", optional_json(at.sample))
      .json("token", optional_json(at.token))
      .json("a", at.a.empty() ? "null" : json_quoted(at.a))
      .json("b", at.b.empty() ? "null" : json_quoted(at.b))
      .json("tensor", at.tensor.empty() ? "null" : json_quoted(at.tensor))
      .json("ulps", optional_json(at.ulps))
      .json("rank", at.rank ? std::to_string(*at.rank) : "null")
      .str();
}

std::string histogram_json(const FieldDifference& field) {
  std::string out;
  for (const uint64_t count : field.ulps) {
    out += (out.empty() ? "[" : ",") + std::to_string(count);
  }
  return out + "]";
}

void print_json(const Difference& compared) {
  const DataDifference& difference = compared.data;
  const RunDifference events = compared.events.value_or(RunDifference{});
  std::string fields, only, options;
  for (const FieldDifference& field : difference.fields) {
    JsonLine line;
    line.text("field", field.field).boolean("equal", field.is_equal());
    line.integer("compared", static_cast<int64_t>(field.compared));
    line.integer("different", static_cast<int64_t>(field.different));
    line.integer("missing", static_cast<int64_t>(field.missing));
    line.integer("tolerated", static_cast<int64_t>(field.tolerated));
    line.integer("nan", static_cast<int64_t>(field.nan));
    line.number("max_difference", field.max_difference).json("ulps", histogram_json(field));
    line.json("first", field.first ? place_json(*field.first, field.field) : "null");
    fields += (fields.empty() ? "[" : ",") + line.str();
  }
  for (const std::string& text : difference.only) {
    only += (only.empty() ? "[" : ",") + json_quoted(text);
  }
  for (const OptionDifference& option : difference.options) {
    options += (options.empty() ? "[" : ",") +
               JsonLine().text("option", option.name).text("a", option.a).text("b", option.b).str();
  }
  JsonLine out;
  out.text("schema", "rlreplay.diff/1")
      .boolean("identical", compared.identical())
      .boolean("within_tolerance", compared.within)
      .json("options", options.empty() ? "[]" : options + "]")
      .json("origin", origin_json(events.step.origin))
      .json("first",
            difference.first ? place_json(*difference.first, difference.first_field) : "null")
      .json("fields", fields.empty() ? "[]" : fields + "]")
      .json("events", fields_json(events.step.events))
      .integer("event_steps", static_cast<int64_t>(events.compared))
      .json("only", only.empty() ? "[]" : only + "]")
      .integer("groups", static_cast<int64_t>(difference.groups))
      .integer("groups_equal", static_cast<int64_t>(difference.groups_equal))
      .integer("bytes_read", static_cast<int64_t>(difference.bytes_read));
  compared.content ? out.text("content_a", compared.content->first.hex()) : out.null("content_a");
  compared.content ? out.text("content_b", compared.content->second.hex()) : out.null("content_b");
  std::cout << out.str() << '\n';
}

std::string place_text(const ValueDifference& at) {
  std::string out = "rollout " + std::to_string(at.rollout_id);
  if (at.step_id) out += ", step " + std::to_string(*at.step_id);
  if (at.rank) out += ", rank " + std::to_string(*at.rank);
  if (at.sample) out += ", sample " + std::to_string(*at.sample);
  if (at.token) out += ", token " + std::to_string(*at.token);
  return out;
}

std::string histogram_text(const FieldDifference& field) {
  std::string out;
  for (size_t i = 0; i < field.ulps.size(); ++i) {
    if (field.ulps[i] == 0) continue;
    const uint64_t low = uint64_t{1} << i;
    std::string range = std::to_string(low);
    if (i + 1 == field.ulps.size()) {
      range += "+";
    } else if (i > 0) {
      range += "-" + std::to_string(2 * low - 1);
    }
    out += (out.empty() ? "" : ", ") + range + ":" + std::to_string(field.ulps[i]);
  }
  return out;
}

std::string tolerances_text(const DiffArguments& arguments) {
  std::string out;
  for (const std::string& text : arguments.tolerances) out += " --tolerance " + text;
  return out;
}

/// "differ: options, 2 rollouts, 3 steps".
std::string verdict(const DiffArguments& arguments, const Difference& difference) {
  if (difference.identical()) {
    return arguments.trust_hashes ? "identical by recorded hashes; equal units were not read"
                                  : "identical";
  }
  if (difference.within) return "not identical, but within" + tolerances_text(arguments);
  const DataDifference& data = difference.data;
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  if (!data.options.empty()) add(counted(data.options.size(), "option"));
  if (data.rollouts > 0) add(counted(data.rollouts, "rollout"));
  if (data.steps > 0) add(counted(data.steps, "step"));
  if (data.states > 0) add(counted(data.states, "state"));
  if (!data.only.empty()) add(std::to_string(data.only.size()) + " only in one");
  return "differ: " + out;
}

/// The first lines of a list, and how many more there are.
void print_some(const std::vector<std::string>& lines, size_t most, bool all) {
  const size_t shown = all ? lines.size() : std::min(lines.size(), most);
  for (size_t i = 0; i < shown; ++i) std::cout << lines[i] << '\n';
  if (shown < lines.size()) {
    std::cout << "  and " << lines.size() - shown << " more (--all)\n";
  }
}

std::vector<std::string> option_lines(const DataDifference& data) {
  std::vector<std::string> out;
  const auto value = [](const std::string& text) {
    return text.empty() ? std::string("(none)") : one_line(text, 24);
  };
  for (const OptionDifference& option : data.options) {
    out.push_back((out.empty() ? "options  " : "         ") + option.name + ": " + value(option.a) +
                  " -> " + value(option.b));
  }
  return out;
}

std::string distance_text(const ValueDifference& at) {
  std::string out;
  if (at.apart && !std::isnan(*at.apart)) out = "|a - b| " + short_number(*at.apart);
  if (at.apart && std::isnan(*at.apart)) out = "one of them is no number";
  if (at.ulps == 0u) out = "zeros of different sign";
  if (at.ulps && *at.ulps > 0 && *at.ulps < static_cast<uint64_t>(kFarUlps))
    out += ", " + counted(*at.ulps, "ulp");
  return out;
}

void print_first(const DataDifference& data) {
  if (!data.first) return;
  const ValueDifference& at = *data.first;
  const auto value = [](const std::string& text) {
    return text.empty() ? std::string("(nothing)") : one_line(text, 64);
  };
  std::cout << "first    " << data.first_field
            << (at.tensor.empty() ? "" : " " + one_line(at.tensor, 48)) << " at\n         "
            << place_text(at) << "\n  A      " << value(at.a) << "\n  B      " << value(at.b)
            << '\n';
  const std::string distance = distance_text(at);
  if (!distance.empty()) std::cout << "         " << distance << '\n';
}

void print_fields(const DataDifference& data, bool all) {
  std::vector<FieldDifference> shown;
  for (const FieldDifference& field : data.fields) {
    if (all || !field.is_equal() || field.tolerated > 0) shown.push_back(field);
  }
  const size_t most = all ? shown.size() : std::min<size_t>(shown.size(), 6);
  TextTable table({"field", "compared", "different", "missing", "NaN", "max |a - b|"});
  for (const FieldDifference& field : std::span(shown).first(most)) {
    table.add({one_line(field.field, 30), std::to_string(field.compared),
               std::to_string(field.different), std::to_string(field.missing),
               std::to_string(field.nan),
               field.different > 0 ? short_number(field.max_difference) : "-"});
  }
  if (!table.empty()) std::cout << table.str();
  if (most < shown.size()) {
    std::cout << "  and " << shown.size() - most << " more fields (--all)\n";
  }
  for (const FieldDifference& field : shown) {
    const std::string ulps = all ? histogram_text(field) : "";
    const std::string label = field.field + " ulps  ";
    if (!ulps.empty()) std::cout << label << wrapped(ulps, kColumns, label.size()) << '\n';
  }
}

void print_events(const Difference& difference, const std::string& command, bool all) {
  if (!difference.events || difference.events->step.identical()) return;
  const Origin& origin = *difference.events->step.origin;
  if (all) {
    std::cout << '\n' << difference_report(difference.events->step, "A", "B", command) << '\n';
    return;
  }
  std::cout << "first difference: "
            << to_string(engine::StepEvent{origin.rollout_id, origin.step_id, origin.event})
            << "\n  of " << counted(difference.events->step.events.size(), "event")
            << " that differ there; its inputs " << (origin.inputs_equal ? "agree" : "do not agree")
            << '\n';
}

void print_text(const DiffArguments& arguments, const Difference& difference) {
  const std::string command =
      "rlreplay diff " + arguments.a + " " + arguments.b + tolerances_text(arguments);
  const DataDifference& data = difference.data;
  std::cout << verdict(arguments, difference) << '\n';
  print_some(option_lines(data), 4, arguments.all);
  print_some(data.only, 2, arguments.all);
  if (!data.identical) {
    print_first(data);
    print_fields(data, arguments.all);
    print_events(difference, command, arguments.all);
  }
  for (const std::string& note : difference.notes) {
    std::cout << wrapped(note, kColumns, 2) << '\n';
  }
  if (difference.content) {
    const auto& [a, b] = *difference.content;
    std::cout << "content  " << a.hex() << '\n';
    if (!(a == b)) std::cout << "         " << b.hex() << '\n';
  }
  if (!data.identical) std::cout << "again: " << command << '\n';
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
void add_content(const AnyDump& a, const AnyDump& b, Difference& difference) {
  const auto in_a = stored_content(a.reader()), in_b = stored_content(b.reader());
  if (!in_a || !in_b) return;
  difference.content.emplace(*in_a, *in_b);
  if ((*in_a == *in_b) == difference.identical()) return;
  throw format::FormatError(format::Rule::kContent,
                            "a record says something else of a group than its unit holds: "
                            "rlreplay verify --deep names it",
                            a.path() + " or " + b.path());
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

Difference compare(const DiffArguments& arguments, const AnyDump& a, const AnyDump& b) {
  const DiffOptions options = options_of(arguments);
  Difference difference;
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
  if (difference.identical() || a.is_temporary() || b.is_temporary()) return difference;
  difference.events = compare_runs(a.run(), b.run(), EqualContent::kSkip);
  const RunDifference& events = *difference.events;
  if (!events.skipped.empty()) {
    difference.notes.push_back("events: " + events.skipped + " (" + events.skipped_in + ")");
  }
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

Difference compare(const DiffArguments& arguments) {
  const AnyDump a(arguments.a), b(arguments.b);
  try {
    return compare(arguments, a, b);
  } catch (const Error& error) {
    throw named(a, b, error);
  }
}

int diff(const DiffArguments& arguments) {
  const Difference difference = compare(arguments);
  if (arguments.json) {
    print_json(difference);
  } else {
    print_text(arguments, difference);
  }
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
  verb->add_flag("--all", arguments->all, "print all fields, the histograms and all events");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Dumps are identical where their content roots are equal (format/SPEC.md section 7):\n"
      "options that can change bits, samples, columns, scalars, events, states. Samples are\n"
      "compared by id, whatever the numbers of ranks and however the dumps are stored; equal is\n"
      "equal to the bit, and a NaN equals a NaN. Every stored byte is held to its hash; units of\n"
      "equal content are not decoded. Times and other volatile things of foreign dumps are left\n"
      "out. With a tolerance, columns and scalars decide, and the verdict says so.\n"
      "Exit code 1 where the dumps differ.\n\n"
      "Examples:\n  rlreplay diff runA/ runB/\n  rlreplay diff runA/ runB/ --tolerance "
      "advantages=1e-6");
  verb->callback([=, &chosen] { chosen = [=] { return diff(*arguments); }; });
}

}  // namespace rlreplay::replay

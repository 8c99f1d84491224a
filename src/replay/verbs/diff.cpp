#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <iostream>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/wrap.h"
#include "src/replay/difference_report.h"
#include "src/replay/exchange/any_dump.h"
#include "src/replay/exchange/data_difference.h"
#include "src/replay/run_difference.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct DiffArguments {
  std::string a, b;
  std::vector<std::string> tolerances;
  bool json = false;
};

struct Difference {
  DataDifference data;
  std::optional<RunDifference> events;  // of two dumps of ours
  bool identical = true;
};

DiffOptions options_of(const DiffArguments& arguments) {
  DiffOptions options;
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
  std::string fields, only;
  for (const FieldDifference& field : difference.fields) {
    JsonLine line;
    line.text("field", field.field).boolean("equal", field.is_equal());
    line.integer("compared", static_cast<int64_t>(field.compared));
    line.integer("different", static_cast<int64_t>(field.different));
    line.integer("missing", static_cast<int64_t>(field.missing));
    line.number("max_difference", field.max_difference).json("ulps", histogram_json(field));
    line.json("first", field.first ? place_json(*field.first, field.field) : "null");
    fields += (fields.empty() ? "[" : ",") + line.str();
  }
  for (const std::string& text : difference.only) {
    only += (only.empty() ? "[" : ",") + json_quoted(text);
  }
  std::cout << JsonLine()
                   .text("schema", "rlreplay.diff/1")
                   .boolean("identical", compared.identical)
                   .json("origin", origin_json(events.step.origin))
                   .json("first", difference.first
                                      ? place_json(*difference.first, difference.first_field)
                                      : "null")
                   .json("fields", fields.empty() ? "[]" : fields + "]")
                   .json("events", fields_json(events.step.events))
                   .integer("event_steps", static_cast<int64_t>(events.compared))
                   .json("only", only.empty() ? "[]" : only + "]")
                   .integer("groups", static_cast<int64_t>(difference.groups))
                   .integer("groups_equal", static_cast<int64_t>(difference.groups_equal))
                   .integer("datasets_equal", static_cast<int64_t>(difference.datasets_equal))
                   .integer("bytes_read", static_cast<int64_t>(difference.bytes_read))
                   .str()
            << '\n';
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

void print_data(const DataDifference& difference) {
  for (const std::string& text : difference.only) std::cout << text << '\n';
  TextTable table({"field", "compared", "different", "missing", "max |a - b|"});
  for (const FieldDifference& field : difference.fields) {
    table.add({field.field, std::to_string(field.compared), std::to_string(field.different),
               std::to_string(field.missing),
               field.different > 0 ? short_number(field.max_difference) : "-"});
  }
  if (!table.empty()) std::cout << table.str();
  for (const FieldDifference& field : difference.fields) {
    const std::string ulps = histogram_text(field);
    const std::string label = field.field + " ulps  ";
    if (!ulps.empty()) std::cout << label << wrapped(ulps, kLineWidth, label.size()) << '\n';
  }
  std::cout << (table.empty() ? "" : "\n") << difference.groups_equal << " of " << difference.groups
            << " rollouts and steps have equal hashes and were not read\n";
  if (difference.datasets_equal > 0) {
    std::cout << "in the others " << difference.datasets_equal
              << " columns have equal hashes and were not decoded\n";
  }
  if (difference.first) {
    const ValueDifference& at = *difference.first;
    std::cout << "first difference: " << difference.first_field << " at " << place_text(at)
              << "\n  A " << (at.a.empty() ? "(nothing)" : one_line(at.a, 96)) << "\n  B "
              << (at.b.empty() ? "(nothing)" : one_line(at.b, 96)) << '\n';
    if (at.ulps) std::cout << "  " << *at.ulps << " ulps apart\n";
  }
}

std::string counted_steps(size_t count) {
  return std::to_string(count) + (count == 1 ? " step" : " steps");
}

void print_events(const RunDifference& events, const std::string& command) {
  std::cout << "\nevents of " << counted_steps(events.compared) << " compared";
  if (events.equal > 0) std::cout << "; of " << counted_steps(events.equal) << " equal by hash";
  if (!events.skipped.empty()) {
    std::cout << "; " << events.skipped << " (" << events.skipped_in << ")";
  }
  std::cout << '\n';
  if (events.step.identical()) return;
  std::cout << '\n' << difference_report(events.step, "A", "B", command) << '\n';
}

void print_text(const DiffArguments& arguments, const Difference& difference) {
  std::string command = "rlreplay diff " + arguments.a + " " + arguments.b;
  for (const std::string& text : arguments.tolerances) command += " --tolerance " + text;
  print_data(difference.data);
  if (difference.events) print_events(*difference.events, command);
  std::cout << (difference.identical ? "identical" : "different") << '\n';
  const bool shown = difference.events && !difference.events->step.identical();
  if (!difference.identical && !shown) std::cout << "again: " << command << '\n';
}

Difference compare(const DiffArguments& arguments) {
  const DiffOptions options = options_of(arguments);
  const AnyDump a(arguments.a);
  const AnyDump b(arguments.b);
  Difference difference;
  difference.data = compare_data(a.reader(), b.reader(), options);
  difference.identical = difference.data.identical;
  if (!is_native_dump(arguments.a) || !is_native_dump(arguments.b)) return difference;
  difference.events =
      compare_runs(RecordedRun(arguments.a), RecordedRun(arguments.b), EqualContent::kSkip);
  // Events are compared to the bit: they cannot judge what a tolerance allows.
  const bool decides = options.tolerance.empty();
  if (decides && !difference.events->step.identical()) difference.identical = false;
  return difference;
}

int diff(const DiffArguments& arguments) {
  const Difference difference = compare(arguments);
  if (arguments.json) {
    print_json(difference);
  } else {
    print_text(arguments, difference);
  }
  return difference.identical ? 0 : 1;
}

}  // namespace

void add_diff(CLI::App& program, Command& chosen) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* verb = program.add_subcommand("diff", "The first difference of two dumps");
  verb->add_option("a", arguments->a, "a dump, or files of slime, Miles or Relax")->required();
  verb->add_option("b", arguments->b, "another")->required();
  verb->add_option("--tolerance", arguments->tolerances,
                   "FIELD=NUMBER: differences up to it count as none (repeatable)");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Samples are compared by id, whatever the numbers of ranks; what has equal hashes is not\n"
      "read. Times and other volatile things of foreign dumps are left out. Where both dumps "
      "recorded\n"
      "events, those are compared too, to the bit, up to the first step that differs; with a\n"
      "tolerance the data alone decide. Exit code 1 where the dumps differ.\n\n"
      "Examples:\n  rlreplay diff runA/ runB/\n  rlreplay diff runA/ runB/ --tolerance "
      "advantages=1e-6");
  verb->callback([=, &chosen] { chosen = [=] { return diff(*arguments); }; });
}

}  // namespace rlreplay::replay

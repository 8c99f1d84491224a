#include "src/replay/compare/dumps_difference_report.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/same_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/compare/step_difference_report.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kLines = 20;              // of a report that is not asked for all
constexpr size_t kCausesBeforeEvents = 8;  // of these, where no event is named
constexpr size_t kMostOnly = 2;

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
  return json_list(field.ulps, [](uint64_t count) { return std::to_string(count); });
}

std::string field_json(const FieldDifference& field) {
  JsonLine line;
  line.text("field", field.field).boolean("equal", field.is_equal());
  line.integer("compared", static_cast<int64_t>(field.compared));
  line.integer("different", static_cast<int64_t>(field.different));
  line.integer("missing", static_cast<int64_t>(field.missing));
  line.integer("tolerated", static_cast<int64_t>(field.tolerated));
  line.integer("nan", static_cast<int64_t>(field.nan));
  line.number("max_difference", field.max_difference).json("ulps", histogram_json(field));
  return line.json("first", field.first ? place_json(*field.first, field.field) : "null").str();
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

std::string only_text(const std::vector<std::string>& only, bool all) {
  const size_t shown = all ? only.size() : std::min(only.size(), kMostOnly);
  std::string out;
  for (size_t i = 0; i < shown; ++i) out += wrapped(only[i], kLineWidth, 2) + "\n";
  if (shown == only.size()) return out;
  return out + "  and " + std::to_string(only.size() - shown) + " more (--all)\n";
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

std::string first_text(const DumpsDifference& difference) {
  const DataDifference& data = difference.data;
  if (!data.first) return {};
  const ValueDifference& at = *data.first;
  const bool unrecorded = is_unrecorded(data.first_field, at);
  const auto [in_a, in_b] = parting_lines(at.a, at.b, 64);
  const auto value = [&](const std::string& text, bool imported) -> std::string {
    if (!text.empty()) return text;
    if (!unrecorded) return "(nothing)";
    return imported ? "not there: the dump was imported, and not captured"
                    : "not recorded: captured with a coarser --record";
  };
  std::string out = "first    " + data.first_field +
                    (at.tensor.empty() ? "" : " " + one_line(at.tensor, 48)) + " at\n         " +
                    place_text(at) + "\n  A      " + value(in_a, difference.a_imported) +
                    "\n  B      " + value(in_b, difference.b_imported) + "\n";
  const std::string distance = distance_text(at);
  return distance.empty() ? out : out + "         " + distance + "\n";
}

/// `lines`: how many there may be; none are printed where a row does not fit.
std::string fields_text(const DataDifference& data, bool all, size_t lines) {
  std::vector<const FieldDifference*> shown;
  for (const FieldDifference& field : data.fields) {
    if (all || !field.is_equal() || field.tolerated > 0) shown.push_back(&field);
  }
  // Two lines are the table's head and the line that counts the rest.
  const size_t most = all || shown.size() < lines ? shown.size() : std::max<size_t>(lines, 2) - 2;
  if (most == 0) return {};
  TextTable table({"field", "compared", "different", "missing", "NaN", "max |a - b|"});
  for (const FieldDifference* field : std::span(shown).first(most)) {
    table.add({one_line(field->field, 32), std::to_string(field->compared),
               std::to_string(field->different), std::to_string(field->missing),
               std::to_string(field->nan),
               field->different > 0 ? short_number(field->max_difference) : "-"});
  }
  std::string out = table.str();
  if (most < shown.size()) {
    out += "  and " + std::to_string(shown.size() - most) + " more fields (--all)\n";
  }
  for (const FieldDifference* field : shown) {
    const std::string ulps = all ? histogram_text(*field) : "";
    const std::string label = field->field + " ulps  ";
    if (!ulps.empty()) out += label + wrapped(ulps, kLineWidth, label.size()) + "\n";
  }
  return out;
}

/// Whether the first value that differs says more than causes and events do.
bool first_matters(const DumpsDifference& difference) {
  const Origin* origin = difference.origin();
  if (origin == nullptr) return true;
  if (!difference.data.first || data_differs(difference.causes)) return false;
  const ValueDifference& first = *difference.data.first;
  return format::GroupName{first.rollout_id, first.step_id} <
         format::GroupName{origin->rollout_id, origin->step_id};
}

std::string end_text(const DumpsDifference& difference) {
  std::string out;
  for (const std::string& note : difference.notes) out += wrapped(note, kLineWidth, 2) + "\n";
  if (!difference.content) return out;
  const auto& [a, b] = *difference.content;
  out += "content  " + a.hex() + "\n";
  return a == b ? out : out + "         " + b.hex() + "\n";
}

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

}  // namespace

std::string identical_verdict(const DumpsDifference& difference) {
  const BesideContent& beside = difference.beside;
  std::vector<std::string> found;
  if (beside.kept > 0) {
    found.push_back(counted(beside.kept, "kept file") +
                    (beside.kept == 1 ? " differs" : " differ"));
  }
  if (beside.inputs > 0) {
    found.push_back(counted(beside.inputs, "sample") + (beside.inputs == 1 ? " has" : " have") +
                    " images or sound in one only");
  }
  if (!beside.keeps_alone.empty()) {
    found.push_back(beside.keeps_alone + " alone keeps foreign files");
  }
  if (found.empty()) return "identical";
  return wrapped("identical in content; " + joined(found, ", "), kLineWidth, 2);
}

std::string diff_verdict(const DumpsDifference& difference) {
  const DataDifference& data = difference.data;
  std::string out;
  const auto add = [&](size_t count, const char* one) {
    if (count > 0) out += (out.empty() ? "" : ", ") + counted(count, one);
  };
  const auto differing = [&](const char* kind, bool unrecorded) {
    return static_cast<size_t>(std::ranges::count_if(data.groups_differing, [&](const auto& g) {
      return g.kind == kind && g.unrecorded == unrecorded;
    }));
  };
  const auto is = [](const char* name) {
    return [name](const OptionDifference& o) { return o.name == name; };
  };
  const bool contract = std::ranges::any_of(data.options, is("contract"));
  const bool model = std::ranges::any_of(data.options, is("model"));
  add(data.options.size() - (contract ? 1 : 0) - (model ? 1 : 0), "option");
  if (contract) out += out.empty() ? "contract" : ", contract";
  if (model) out += out.empty() ? "model" : ", model";
  add(differing("rollout", false), "rollout");
  add(differing("train", false), "step");
  add(differing("weights", false), "state");
  const size_t rollouts = differing("rollout", true), steps = differing("train", true);
  if (rollouts + steps > 0) out += out.empty() ? "events of " : ", events of ";
  if (rollouts > 0) out += counted(rollouts, "rollout") + (steps > 0 ? " and " : "");
  if (steps > 0) out += counted(steps, "step");
  if (rollouts + steps > 0) out += " recorded in one only";
  if (!data.only.empty()) {
    out += (out.empty() ? "" : ", ") + std::to_string(data.only.size()) + " only in one";
  }
  return wrapped("differ: " + out, kLineWidth, 2);
}

std::string first_value_text(const DumpsDifference& difference) {
  return first_matters(difference) ? first_text(difference) : std::string();
}

std::string first_difference_line(const DumpsDifference& difference) {
  if (!first_matters(difference)) return origin_line(*difference.origin());
  if (!difference.data.first) return {};
  const ValueDifference& at = *difference.data.first;
  const std::string distance = distance_text(at);
  return difference.data.first_field + (at.tensor.empty() ? "" : " " + one_line(at.tensor, 48)) +
         ", " + place_text(at) + (distance.empty() ? "" : ", " + distance);
}

std::string diff_text(const DumpsDifference& difference, const std::string& verdict,
                      const std::string& command, bool all) {
  std::string out = verdict + "\n", end = end_text(difference);
  if (difference.identical()) return out + end;
  out += only_text(difference.data.only, all);
  if (difference.origin() != nullptr) {
    const ReportOptions report{difference.causes, difference.element,
                               all ? ReportLength::kAll : ReportLength::kBrief};
    out += step_difference_report(difference.events->step, "A", "B", command, report);
  } else {
    out += causes_text(difference.causes, all ? SIZE_MAX : kCausesBeforeEvents);
    end += "again: " + command + "\n";
  }
  out += all ? first_text(difference) : first_value_text(difference);
  const size_t used = lines_of(out) + lines_of(end);
  return out + fields_text(difference.data, all, kLines - std::min(kLines, used)) + end;
}

std::string diff_json(const DumpsDifference& compared, const std::string& command) {
  const DataDifference& difference = compared.data;
  const RunDifference events = compared.events.value_or(RunDifference{});
  const auto option = [](const OptionDifference& o) {
    return JsonLine().text("option", o.name).text("a", o.a).text("b", o.b).str();
  };
  const auto quoted = [](const std::string& text) { return json_quoted(text); };
  JsonLine out;
  out.text("schema", "rlreplay.diff/1")
      .boolean("identical", compared.identical())
      .boolean("within_tolerance", compared.within)
      .json("options", json_list(difference.options, option))
      .json("causes", causes_json(compared.causes))
      .json("origin", origin_json(events.step.origin));
  compared.element.empty() ? out.null("note") : out.text("note", compared.element);
  out.json("first",
           difference.first ? place_json(*difference.first, difference.first_field) : "null")
      .json("fields", json_list(difference.fields, field_json))
      .json("events", fields_json(events.step.events))
      .integer("event_steps", static_cast<int64_t>(events.compared))
      .json("only", json_list(difference.only, quoted))
      .integer("groups", static_cast<int64_t>(difference.groups))
      .integer("groups_equal", static_cast<int64_t>(difference.groups_equal))
      .integer("bytes_read", static_cast<int64_t>(difference.bytes_read));
  compared.content ? out.text("content_a", compared.content->first.hex()) : out.null("content_a");
  compared.content ? out.text("content_b", compared.content->second.hex()) : out.null("content_b");
  const auto count = [&](const char* name, size_t n) {
    if (n > 0) out.integer(name, static_cast<int64_t>(n));
  };
  count("kept_files", compared.beside.kept);
  count("other_inputs", compared.beside.inputs);
  out.json("notes", json_list(compared.notes, quoted));
  return out.text("reproduce", command).str();
}

}  // namespace rlreplay::replay

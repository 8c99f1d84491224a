#include "src/replay/compare/step_difference_report.h"

#include <algorithm>
#include <cmath>

#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/same_value.h"
#include "src/base/words.h"
#include "src/events/name.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kMostEvents = 3;     // listed in the short report
constexpr size_t kCauseLines = 10;    // likewise
constexpr size_t kFewCauseLines = 5;  // in the brief one

std::string line(std::string_view label, const std::string& text) {
  std::string out = "  " + std::string(label);
  out.resize(std::max<size_t>(kReportLabel + 3, out.size() + 1), ' ');
  return out + text + "\n";
}

bool is_integer(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kI16 ||
         dtype == DType::kI8 || dtype == DType::kU64 || dtype == DType::kU32 ||
         dtype == DType::kU16 || dtype == DType::kU8 || dtype == DType::kBool;
}

std::string direction(int64_t steps) { return steps > 0 ? " up" : " down"; }

/// The difference, its share of the first value, and the floats between where they are few.
std::string distance_text(const EventDifference::Value& value) {
  if (!value.ulps) return "one of them is no number";
  const int64_t n = *value.ulps < 0 ? -*value.ulps : *value.ulps;
  if (is_integer(value.a.dtype)) {
    return std::to_string(n) + (n == 1 ? " quantum" : " quanta") + direction(*value.ulps);
  }
  if (n == 0) return "0: zeros of different sign";
  const double a = value.a.number(), apart = value.b.number() - a;
  std::string out = formatted("%+.3g", apart);
  if (a != 0) out += ", " + formatted("%.2g", std::abs(apart / a)) + " of it";
  if (n < kFarUlps) out += ", " + counted(n, "ulp") + direction(*value.ulps);
  return out;
}

std::string place_text(const Origin& origin) {
  const engine::EventSpec* spec = find_event(origin.event);
  std::string out;
  if (spec != nullptr && !is_per_token(spec->kind) && !is_parameter(spec->kind)) {
    out = "the scalar";
  } else if (!origin.row) {
    out = "rows were not recorded";
  } else if (origin.per_token) {
    out = "sample " + std::to_string(origin.row->sample) + ", token " +
          std::to_string(origin.row->row);
  } else {
    out = "row " + std::to_string(origin.row->row);
  }
  if (origin.value) {
    out += ", column " + std::to_string(origin.value->at.column) + " (index " +
           std::to_string(origin.value->index) + ")";
  }
  if (origin.ranks > 1) return out + ", one of " + std::to_string(origin.ranks) + " ranks";
  return out + ", rank " + std::to_string(origin.rank);
}

std::string_view given_meaning(const std::vector<Cause>& causes) {
  if (data_differs(causes)) return "there are none: the two sides were given different data";
  return "there are none: it is given to the step, by options, rewards and weights before it";
}

std::string_view meaning(OriginClass kind, const std::vector<Cause>& causes) {
  switch (kind) {
    case OriginClass::kOrigin:
      return "agree: the difference begins here";
    case OriginClass::kInterval:
      return "agree where they were recorded: it begins here or in an event that was not recorded";
    case OriginClass::kGiven:
      return given_meaning(causes);
    case OriginClass::kCarrier:
      return "differ: it began earlier, in the state before the step or in what was not compared";
    case OriginClass::kMissing:
      return "only one side has this event";
  }
  return "?";
}

/// A name that is too long for the column of labels stands behind the value.
std::string value_line(std::string_view letter, std::string_view name, const RecordedValue& value) {
  const std::string text = value.text() + "  (" + value.hex_bits() + ")";
  if (name.size() <= kReportLabel) return line(name, text);
  return line(letter, text + "  " + std::string(name));
}

std::string values_text(const Origin& origin, std::string_view name_a, std::string_view name_b) {
  if (!origin.value) {
    return line("values", "were not recorded");
  }
  const auto& v = *origin.value;
  return value_line("a", name_a, v.a) + value_line("b", name_b, v.b) +
         line("distance", distance_text(v));
}

std::string event_text(const EventDifference& d) {
  std::string out = "    " + to_string(d.event);
  out.resize(std::max<size_t>(42, out.size() + 2), ' ');
  if (d.missing) return out + "on one side only\n";
  if (!d.rows_known) return out + "differs\n";
  const auto add = [&](const std::string& text) {
    if (out.size() + text.size() <= kLineWidth) out += text;
  };
  add(counted(static_cast<int64_t>(d.rows.size()), "row"));
  if (d.elements > 0) add(", " + counted(d.elements, "element"));
  if (d.largest_ulps && *d.largest_ulps < kFarUlps) {
    add(", at most " + counted(*d.largest_ulps, "ulp"));
  }
  return out + "\n";
}

std::string events_text(std::span<const EventDifference> events, ReportLength length) {
  std::string out = "  " + counted(static_cast<int64_t>(events.size()), "event") + " differ" +
                    (events.size() == 1 ? "s" : "");
  if (length == ReportLength::kBrief) return out + " in this step (--all lists them)\n";
  const size_t most =
      length == ReportLength::kAll ? events.size() : std::min(events.size(), kMostEvents);
  out += ", in canonical order:\n";
  for (const EventDifference& d : events.first(most)) out += event_text(d);
  if (events.size() > most) {
    out += "    and " + std::to_string(events.size() - most) + " more (--all lists them)\n";
  }
  return out;
}

std::string histogram_text(std::span<const EventDifference> events) {
  std::array<int64_t, 64> counts{};
  for (const EventDifference& d : events) {
    if (!d.first || is_integer(d.first->a.dtype)) continue;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += d.ulps_by_power[i];
  }
  const int64_t most = *std::ranges::max_element(counts);
  std::string out;
  bool gap = false;  // since the row before; none before the first
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      gap = !out.empty();
      continue;
    }
    if (gap) out += "    ...\n";
    gap = false;
    std::string row = "    " + (i == 0 ? "1 ulp" : "from 2^" + std::to_string(i));
    row.resize(18, ' ');
    row += std::to_string(counts[i]);
    row.resize(std::max<size_t>(32, row.size() + 1), ' ');
    out += row + std::string(static_cast<size_t>((counts[i] * 40 + most - 1) / most), '#') + "\n";
  }
  return out.empty() ? out : "\n  floats by distance:\n" + out;
}

void value_json(JsonLine& out, std::string_view key, const RecordedValue& value) {
  if (std::isfinite(value.number())) {
    out.json(key, value.text());
  } else {
    out.null(key);
  }
  out.text(std::string(key) + "_bits", value.hex_bits());
}

}  // namespace

std::string step_difference_report(const StepDifference& difference, std::string_view name_a,
                                   std::string_view name_b, std::string_view command,
                                   const ReportOptions& options) {
  if (!difference.origin) return "no difference\n";
  const bool brief = options.length == ReportLength::kBrief;
  const bool all = options.length == ReportLength::kAll;
  const std::string gap = brief ? "" : "\n";
  const Origin& origin = *difference.origin;
  const auto wide = [](std::string_view label, std::string_view text) {
    return line(label, wrapped(text, kLineWidth, kReportLabel + 3));
  };
  std::string out = "first difference: " +
                    to_string(engine::StepEvent{origin.rollout_id, origin.step_id, origin.event}) +
                    "\n" + gap +
                    causes_text(options.causes, all     ? SIZE_MAX
                                                : brief ? kFewCauseLines
                                                        : kCauseLines);
  out += wide("where", place_text(origin));
  out += values_text(origin, name_a, name_b);
  out += wide("inputs", meaning(origin.kind, options.causes));
  if (!options.note.empty()) out += wide("note", options.note);
  out += events_text(difference.events, options.length);
  if (all) out += histogram_text(difference.events);
  return out + gap + "  " + std::string(command) + "\n";
}

std::string origin_line(const Origin& origin) {
  const std::string out =
      to_string(engine::StepEvent{origin.rollout_id, origin.step_id, origin.event}) + ", " +
      place_text(origin);
  return origin.value ? out + ", " + distance_text(*origin.value) : out;
}

std::string origin_json(const std::optional<Origin>& origin) {
  if (!origin) return "null";
  JsonLine out;
  out.text("event",
           to_string(engine::StepEvent{origin->rollout_id, origin->step_id, origin->event}));
  out.integer("rollout_id", origin->rollout_id).integer("step_id", origin->step_id);
  const bool named = is_named(origin->event);
  out.text("phase", named ? "" : name(origin->event.phase));
  origin->event.layer < 0 ? out.null("layer") : out.integer("layer", origin->event.layer);
  out.text("op", named ? "" : name(origin->event.op));
  out.text("tensor", origin->event.tensor);
  out.integer("rank", origin->rank);
  const bool token = origin->row && origin->per_token;
  token ? out.json("sample", std::to_string(origin->row->sample)) : out.null("sample");
  token ? out.integer("token", origin->row->row) : out.null("token");
  if (origin->value) {
    out.integer("index", origin->value->index);
    value_json(out, "a", origin->value->a);
    value_json(out, "b", origin->value->b);
  } else {
    out.null("index").null("a").null("b");
  }
  const bool ulps = origin->value && origin->value->ulps;
  ulps ? out.integer("ulps", *origin->value->ulps) : out.null("ulps");
  out.boolean("inputs_equal", origin->inputs_equal).text("class", name(origin->kind));
  return out.str();
}

std::string fields_json(std::span<const EventDifference> events) {
  return json_list(events, [](const EventDifference& d) {
    JsonLine field;
    field.text("event", to_string(d.event)).integer("rank", d.rank);
    d.rows_known ? field.integer("rows", static_cast<int64_t>(d.rows.size())) : field.null("rows");
    d.first ? field.integer("elements", d.elements) : field.null("elements");
    d.largest_ulps ? field.integer("ulps", *d.largest_ulps) : field.null("ulps");
    field.boolean("missing", d.missing);
    return field.str();
  });
}

std::string to_json(const StepDifference& difference, const ReportOptions& options) {
  JsonLine out;
  out.text("schema", "rlreplay.replay.diff/1").boolean("identical", difference.identical());
  out.json("causes", causes_json(options.causes));
  out.json("origin", origin_json(difference.origin));
  options.note.empty() ? out.null("note") : out.text("note", options.note);
  out.json("fields", fields_json(difference.events));
  return out.str();
}

}  // namespace rlreplay::replay

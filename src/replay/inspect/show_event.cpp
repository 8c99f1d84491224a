#include "src/replay/inspect/show_event.h"

#include <algorithm>
#include <set>
#include <vector>

#include "format/unit_counts.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/events/event_rows.h"
#include "src/events/name.h"
#include "src/replay/compare/event_difference.h"
#include "src/replay/record/chosen_ids.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/event_units.h"

namespace rlreplay::replay {
namespace {

using engine::EventRecord;
using engine::StepEvents;

constexpr int64_t kRows = 8, kColumns = 3;  // of values for people
constexpr int64_t kValues = 64;             // for machines

/// The recorded events of one rank, the first that has some where none is named. Errors: kUsage
/// where there are none.
StepEvents events_of(const RecordedRun& run, const engine::StepEvent& at,
                     std::optional<int64_t> rank) {
  const bool rollout = at.event.phase == engine::Phase::kRollout;
  const StepId step{at.rollout_id, at.step_id};
  const std::string group = rollout ? std::to_string(step.rollout) : step.group();
  const auto units = run.dump().find(rollout ? "rollout" : "train", group);
  const std::string name = rollout ? "rollout " + group : "step " + step.name();
  if (units.empty()) {
    throw Error(ErrorCode::kUsage, "there is no " + name + "; rlreplay show lists what is there",
                run.path());
  }
  std::set<uint64_t> ranks;
  for (const format::UnitRecord* record : units) {
    ranks.insert(static_cast<uint64_t>(format::rank_of(record->path)));
  }
  if (rank) check_chosen("rank", {static_cast<uint64_t>(*rank)}, ranks, run.path());
  const auto with_events = event_units(run.dump(), rollout ? "rollout" : "train", group);
  const auto unit = rank ? with_events.find(*rank) : with_events.begin();
  if (unit != with_events.end()) {
    return read_events(run.dump(), unit->second, group, step.rollout, step.step);
  }
  if (with_events.empty()) {
    throw Error(ErrorCode::kUsage,
                "no events are recorded of " + name + ": rlreplay capture --record ops keeps them",
                run.path());
  }
  std::vector<std::string> there;
  for (const auto& [other, held] : with_events) there.push_back(std::to_string(other));
  throw Error(ErrorCode::kUsage,
              "no events of rank " + std::to_string(*rank) + " are recorded of " + name +
                  "; there are those of " + (there.size() == 1 ? "rank " : "ranks ") +
                  joined(there, ", ") + ": a capture keeps those of all its ranks in rank 0's",
              run.path());
}

const EventRecord& find(const StepEvents& events, const engine::StepEvent& at,
                        const RecordedRun& run) {
  if (const EventRecord* found = events.find(at.event)) return *found;
  std::vector<std::string> names;
  for (const EventRecord& e : events.events) {
    names.push_back(engine::to_string({at.rollout_id, at.step_id, e.event}));
  }
  const auto meant = nearest(engine::to_string(at), names);
  throw Error(ErrorCode::kUsage,
              "the step has " + counted(names.size(), "event") + ", and not this one" +
                  (meant ? ", did you mean " + *meant + "?"
                         : ": --step names its tensors, docs/events.md all events"),
              run.path() + ": " + engine::to_string(at));
}

/// What is looked at of an event.
struct View {
  const EventRecord& event;
  const engine::RowSet* rows = nullptr;  // of a per-token event
  int64_t first = 0, count = 0;          // rows

  /// "sample 3, token 5", "row 4".
  std::string place(int64_t row) const {
    const auto at = rows == nullptr ? std::nullopt : row_at(*rows, row);
    if (!at) return "row " + std::to_string(row);
    return "sample " + std::to_string(at->sample) + ", token " + std::to_string(at->row);
  }
};

View view_of(const StepEvents& events, const EventRecord& event, const EventQuestion& question,
             const RecordedRun& run) {
  View out{event, nullptr, 0, event.rows};
  if (event.row_set >= 0) out.rows = &events.row_sets[static_cast<size_t>(event.row_set)];
  if (!question.sample) return out;
  if (out.rows == nullptr) {
    throw Error(ErrorCode::kUsage,
                "--sample chooses rows of an event with a row a token, and of this one none are "
                "recorded",
                question.event);
  }
  std::set<uint64_t> samples;
  int64_t at = 0;
  out.count = 0;
  for (const engine::RowRun& part : *out.rows) {
    samples.insert(part.sample);
    if (part.sample == *question.sample) {
      if (out.count == 0) out.first = at;
      out.count += part.count;
    }
    at += part.count;
  }
  check_chosen("sample", {*question.sample}, samples, run.path());
  return out;
}

std::string shape(const EventRecord& event) {
  std::string out = "[";
  if (event.row_set >= 0) out += std::to_string(event.rows);
  for (const int64_t size : event.dims) {
    out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return out + "]";
}

std::string stats_text(const EventRecord& event) {
  if (!event.stats) return "not recorded (--record ops+stats keeps them)";
  return "min " + short_number(event.stats->min) + ", max " + short_number(event.stats->max) +
         ", mean " + short_number(event.stats->mean) + ", rms " + short_number(event.stats->rms);
}

std::string finite_text(const View& view) {
  const engine::NonFinite& n = view.event.nonfinite;
  const uint64_t found = format::count_nonfinite(view.event.dtype, view.event.values);
  if (n.count == 0 && found > 0) {
    return counted(found, "value") +
           " not, though events/nonfinite says none: rlreplay verify --deep";
  }
  if (n.count == 0) return "all";
  return std::to_string(n.count) + " are not, first at sample " + std::to_string(n.first.sample) +
         ", row " + std::to_string(n.first.row) + ", column " + std::to_string(n.first.column);
}

std::string values_text(const View& view) {
  const EventRecord& event = view.event;
  if (event.values.empty()) return "values   not recorded (--record ops+values keeps them)\n";
  if (event.rows * event.cols == 1) {
    const RecordedValue value = recorded_value(event, 0);
    return "value    " + value.text() + "  (" + value.hex_bits() + ")\n";
  }
  const int64_t rows = std::min(view.count, kRows), columns = std::min(event.cols, kColumns);
  std::vector<std::string> header = {"values"};
  for (int64_t c = 0; c < columns; ++c) header.push_back("column " + std::to_string(c));
  TextTable table(header);
  for (int64_t r = view.first; r < view.first + rows; ++r) {
    std::vector<std::string> row = {view.place(r)};
    for (int64_t c = 0; c < columns; ++c) {
      row.push_back(recorded_value(event, r * event.cols + c).text());
    }
    table.add(row);
  }
  std::string more;
  if (rows < view.count)
    more += "the first " + std::to_string(rows) + " of " + counted(view.count, "row");
  if (columns < event.cols) {
    more += (more.empty() ? "the first " : ", ") + std::to_string(columns) + " of " +
            counted(event.cols, "column");
  }
  return "\n" + table.str() + (more.empty() ? "" : more + "\n");
}

std::string text(const engine::StepEvent& at, const View& view) {
  const EventRecord& event = view.event;
  return engine::to_string(at) + "\n" +  //
         "dtype    " + std::string(rlreplay::to_string(event.dtype)) + "\n" + "shape    " +
         shape(event) + "\n" +  //
         "rank     " + std::to_string(event.rank) + "\n" + "digest   " + event.digest.hex() + "\n" +
         "finite   " + finite_text(view) + "\n" + "stats    " + stats_text(event) + "\n" +
         "rows     " + counted(event.rows, "row") +
         (event.row_digests.empty() ? ", digests not recorded" : ", a digest each") + "\n" +
         values_text(view);
}

std::string values_json(const View& view) {
  const EventRecord& event = view.event;
  if (event.values.empty()) return "null";
  std::string out;
  const int64_t begin = view.first * event.cols;
  const int64_t end = begin + std::min(view.count * event.cols, kValues);
  for (int64_t i = begin; i < end; ++i) {
    const RecordedValue value = recorded_value(event, i);
    out += (out.empty() ? "" : ",") + ("{\"index\":" + std::to_string(i)) +
           ",\"value\":" + json_quoted(value.text()) +
           ",\"bits\":" + json_quoted(value.hex_bits()) + "}";
  }
  return "[" + out + "]";
}

std::string stats_json(const EventRecord& event) {
  if (!event.stats) return "null";
  JsonLine out;
  out.number("min", event.stats->min).number("max", event.stats->max);
  return out.number("mean", event.stats->mean).number("rms", event.stats->rms).str();
}

std::string json(const engine::StepEvent& at, const View& view) {
  const EventRecord& event = view.event;
  JsonLine first;
  first.integer("sample", static_cast<int64_t>(event.nonfinite.first.sample));
  first.integer("row", event.nonfinite.first.row).integer("column", event.nonfinite.first.column);
  JsonLine nonfinite;
  nonfinite.integer("count", event.nonfinite.count);
  event.nonfinite.count > 0 ? nonfinite.json("first", first.str()) : nonfinite.null("first");
  return JsonLine()
             .text("schema", "rlreplay.show.event/1")
             .text("event", engine::to_string(at))
             .integer("rank", event.rank)
             .text("dtype", rlreplay::to_string(event.dtype))
             .json("shape", shape(event))
             .integer("rows", event.rows)
             .integer("columns", event.cols)
             .text("digest", event.digest.hex())
             .json("nonfinite", nonfinite.str())
             .json("stats", stats_json(event))
             .boolean("row_digests", !event.row_digests.empty())
             .json("values", values_json(view))
             .str() +
         "\n";
}

/// Ours, or one of another table that the dump holds. Errors: those of parse_step_event.
engine::StepEvent asked_event(const RecordedRun& run, const EventQuestion& question) {
  try {
    return engine::parse_step_event(question.event);
  } catch (const Error&) {  // of a name that is none of ours: all that it throws
    auto named = engine::find_step_event(question.event);
    if (!named) throw;
    for (const engine::Phase phase : {engine::Phase::kForward, engine::Phase::kRollout}) {
      named->event.phase = phase;
      const bool rollout = phase == engine::Phase::kRollout;
      const StepId step{named->rollout_id, named->step_id};
      const std::string group = rollout ? std::to_string(step.rollout) : step.group();
      for (const auto& [rank, unit] :
           event_units(run.dump(), rollout ? "rollout" : "train", group)) {
        const StepEvents events = read_events(run.dump(), unit, group, step.rollout, step.step);
        if (events.find(named->event) != nullptr) return *named;
      }
    }
    throw;
  }
}

}  // namespace

std::string show_event(const RecordedRun& run, const EventQuestion& question) {
  const engine::StepEvent at = asked_event(run, question);
  const StepEvents events = events_of(run, at, question.rank);
  const View view = view_of(events, find(events, at, run), question, run);
  return question.json ? json(at, view) : text(at, view);
}

}  // namespace rlreplay::replay

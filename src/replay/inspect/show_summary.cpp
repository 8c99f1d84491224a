#include "src/replay/inspect/show_summary.h"

#include <algorithm>
#include <ostream>
#include <vector>

#include "format/dump_content.h"
#include "format/rollout_data.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/inspect/dump_summary.h"
#include "src/replay/launch/provenance.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;

std::string state(const DumpReader& dump) {
  if (!dump.sealed()) return "unfinished";
  if (dump.complete()) return "complete";
  const std::string died = unended_text(dump);
  return "closed after " + (died.empty() ? "its writer" : died) + " died";
}

std::string megabytes(uint64_t bytes) {
  const double value = static_cast<double>(bytes) / 1e6;
  return formatted(value < 10 ? "%.2f MB" : "%.0f MB", value);
}

/// Who wrote an imported dump, or the options of a captured one that are not the default.
std::string origin_text(const DumpReader& dump) {
  if (const auto vendor = imported_from(dump.meta(), "")) return "from   " + *vendor + "\n";
  try {
    const RunOptions options = read_dump_meta(dump.meta(), "").options;
    std::string out;
    for (const Option& option : option_table()) {
      const std::string text = option_text(options, option);
      if (text == option_text(RunOptions{}, option)) continue;
      out += (out.empty() ? "" : ", ") + std::string(option.name) + " " + one_line(text, 60);
    }
    return "run    " + wrapped(out, kLineWidth, 7) + "\n";
  } catch (const Error&) {  // not ours, or of a version with other options
    return "meta   " + one_line(dump.meta(), 92) + "\n";
  }
}

/// How the samples of each ended, in a column for every way that occurs.
std::string finish_table(const char* title, const std::vector<RolloutSummary>& of) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < std::size(format::kFinishes); ++i) {
    if (std::ranges::any_of(of, [&](const auto& r) { return r.finish && (*r.finish)[i] > 0; })) {
      columns.push_back(i);
    }
  }
  if (columns.empty()) return "";
  std::vector<std::string> header = {title};
  for (const size_t i : columns) header.emplace_back(to_string(format::kFinishes[i]));
  TextTable table(header);
  for (const RolloutSummary& r : of) {
    std::vector<std::string> row = {r.id};
    for (const size_t i : columns) row.push_back(r.finish ? std::to_string((*r.finish)[i]) : "-");
    table.add(row);
  }
  return "\n" + table.str();
}

std::string versions_text(const RolloutSummary& rollout) {
  if (!rollout.versions) return "-";
  const auto [low, high] = *rollout.versions;
  return low == high ? std::to_string(low) : std::to_string(low) + ".." + std::to_string(high);
}

std::string first_of(const std::vector<std::string>& names, size_t width) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string more = (out.empty() ? "" : " ") + names[i];
    if (out.size() + more.size() + 4 > width) {
      return out + " +" + std::to_string(names.size() - i);
    }
    out += more;
  }
  return out;
}

/// Why a dump's content root is not among its lines.
std::string unsaid_content(const DumpReader& dump) {
  const auto groups = format::content_groups(dump);
  const bool parts = std::ranges::any_of(
      groups, [&](const auto& group) { return dump.find(group.first, group.second).size() != 1; });
  return std::string(parts ? "of parts in several units" : "not in the records of its units") +
         ": rlreplay verify computes it";
}

/// The first lines: which dump the numbers below are of, and how it was made.
std::string head(const DumpReader& dump) {
  const uint64_t bytes = dump.units().index().stored_bytes();
  const auto content = recorded_content_root(dump);
  std::string out = "root     " + dump.root().hex() + "\ncontent  " +
                    (content ? content->hex() : unsaid_content(dump)) + "\nstate    " +
                    state(dump) + ", " + std::to_string(dump.units().size()) + " units, " +
                    megabytes(bytes) + "\n";
  out += origin_text(dump);
  const std::string made = provenance_text(dump.unstable());
  return made.empty() ? out : out + "\n" + made;
}

/// The tables' row of a rollout.
std::vector<std::string> row_of(const RolloutSummary& r) {
  return {r.id,
          std::to_string(r.samples),
          r.groups ? std::to_string(*r.groups) : "-",
          std::to_string(r.tokens),
          std::to_string(r.response_tokens),
          std::to_string(r.longest),
          short_number(r.reward, 4),
          short_number(r.log_prob, 4),
          versions_text(r)};
}

std::string rollouts_text(const char* title, const std::vector<RolloutSummary>& of) {
  TextTable table({title, "samples", "groups", "tokens", "response", "longest", "reward",
                   "log-prob", "version"});
  for (const RolloutSummary& r : of) table.add(row_of(r));
  return table.empty() ? "" : "\n" + table.str() + finish_table(title, of);
}

std::string recorded_of(const StepSummary& step, size_t width) {
  return first_of(step.columns, width) + (step.events ? " events" : "");
}

/// The table of steps, which says once what all of them record, where that is the same.
class StepTable {
 public:
  void add(const StepSummary& s) {
    if (table_.empty()) first_ = s;
    alike_ = alike_ && s.columns == first_.columns && s.events == first_.events;
    table_.add({s.id, std::to_string(s.rank), std::to_string(s.samples), std::to_string(s.tokens),
                short_number(s.scalars.find("loss")), short_number(s.scalars.find("grad_norm")),
                recorded_of(s, 34)});
  }

  void print(std::ostream& out) {
    if (table_.empty()) return;
    if (alike_) table_.hide_last();
    out << '\n';
    table_.print(out);
    if (!alike_) return;
    out << wrapped("each with " + recorded_of(first_, SIZE_MAX), kLineWidth, 2) << '\n';
  }

 private:
  TextTable table_ =
      TextTable({"step", "rank", "samples", "tokens", "loss", "grad norm", "recorded"});
  StepSummary first_;
  bool alike_ = true;
};

}  // namespace

void print_summary(const DumpReader& dump, bool temporary, std::ostream& out) {
  const std::string before = (temporary ? origin_text(dump) : head(dump)) +
                             rollouts_text("rollout", summarize_rollouts(dump)) +
                             rollouts_text("eval", summarize_evaluations(dump));
  StepTable steps;
  for_each_step(dump, [&](const StepSummary& step) { steps.add(step); });
  out << before;
  steps.print(out);
}

void print_summary_json(const DumpReader& dump, const std::string& incomplete, std::ostream& out) {
  JsonLine first;
  first.text("schema", "rlreplay.show/2").text("root", dump.root().hex());
  const auto content = recorded_content_root(dump);
  content ? first.text("content", content->hex()) : first.null("content");
  first.boolean("sealed", dump.sealed())
      .boolean("complete", dump.complete())
      .json("incomplete", incomplete.empty() ? "null" : json_quoted(incomplete))
      .json("unended", json_list(unended_writers(dump)))
      .integer("units", static_cast<int64_t>(dump.units().size()))
      .json("meta", dump.meta())
      .json("unstable", dump.unstable());
  out << first.str() << '\n';
  for (const RolloutSummary& r : summarize_rollouts(dump)) {
    JsonLine line;
    line.text("schema", "rlreplay.show.rollout/1").json("rollout_id", r.id);
    line.integer("samples", static_cast<int64_t>(r.samples));
    line.integer("tokens", static_cast<int64_t>(r.tokens));
    line.integer("response_tokens", static_cast<int64_t>(r.response_tokens));
    line.integer("longest_response", static_cast<int64_t>(r.longest));
    line.number("reward_mean", r.reward).number("log_prob_mean", r.log_prob);
    out << line.str() << '\n';
  }
  for_each_step(dump, [&](const StepSummary& s) {
    const StepId id = parse_step(s.id).value();
    JsonLine line;
    line.text("schema", "rlreplay.show.step/1").integer("rollout_id", id.rollout);
    line.integer("step_id", id.step).integer("rank", s.rank);
    line.integer("samples", static_cast<int64_t>(s.samples));
    line.integer("tokens", static_cast<int64_t>(s.tokens));
    line.json("columns", json_list(s.columns)).boolean("events", s.events);
    std::string scalars;
    for (size_t i = 0; i < s.scalars.names.size(); ++i) {
      scalars += (scalars.empty() ? "" : ",") + json_quoted(s.scalars.names[i]) + ":" +
                 json_number(s.scalars.values[i]);
    }
    out << line.json("scalars", "{" + scalars + "}").str() << '\n';
  });
}

}  // namespace rlreplay::replay

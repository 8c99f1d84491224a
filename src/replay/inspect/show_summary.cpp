#include "src/replay/inspect/show_summary.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <set>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/launch/provenance.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/dump_meta.h"
#include "src/replay/record/incomplete_record.h"
#include "src/replay/record/step_id.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::RolloutData;
using format::TrainData;
using format::UnitRecord;

struct RolloutSummary {
  std::string id;
  uint64_t samples = 0, tokens = 0, response_tokens = 0, longest = 0, masked = 0;
  std::optional<uint64_t> groups;
  std::optional<double> reward, log_prob;               // means
  std::optional<std::array<uint64_t, 5>> finish;        // stop, length, aborted, failed, ?
  std::optional<std::pair<int64_t, int64_t>> versions;  // smallest, largest
};

RolloutSummary summarize(const RolloutData& data, const std::string& id) {
  RolloutSummary made;
  made.id = id;
  made.samples = data.size();
  made.tokens = data.tokens.size();
  double reward = 0, log_prob = 0;
  uint64_t rewards = 0, log_probs = 0;
  for (size_t s = 0; s < data.size(); ++s) {
    const uint64_t prompt = data.prompt_length ? (*data.prompt_length)[s] : 0;
    const uint64_t response = data.offsets[s + 1] - data.offsets[s] - prompt;
    made.response_tokens += response;
    made.longest = std::max(made.longest, response);
    if (data.rewards && data.rewards->has(s)) {
      reward += data.rewards->values[s];
      ++rewards;
    }
    for (uint64_t t = data.offsets[s] + prompt; t < data.offsets[s + 1]; ++t) {
      const bool masked = data.loss_mask && data.loss_mask->has(s) && !data.loss_mask->values[t];
      made.masked += masked;
      if (masked || !data.log_probs || !data.log_probs->has(s)) continue;
      log_prob += data.log_probs->at(t);
      ++log_probs;
    }
  }
  if (rewards > 0) made.reward = reward / static_cast<double>(rewards);
  if (log_probs > 0) made.log_prob = log_prob / static_cast<double>(log_probs);
  if (data.group_id) {
    const auto& ids = data.group_id->values;
    made.groups = std::set<uint64_t>(ids.begin(), ids.end()).size();
  }
  if (data.finish) {
    made.finish.emplace();
    for (const format::Finish f : *data.finish) {
      ++(*made.finish)[std::min<size_t>(static_cast<size_t>(f), 4)];
    }
  }
  if (data.versions && !data.versions->versions.empty()) {
    const auto [low, high] =
        std::minmax_element(data.versions->versions.begin(), data.versions->versions.end());
    made.versions = {*low, *high};
  }
  return made;
}

/// What a record counts of a group: nothing where its writer did not count.
std::optional<JsonDocument> counts_of(const UnitRecord& record, const std::string& group) {
  const auto counts = record.counts.find(group);
  if (counts == record.counts.end()) return std::nullopt;
  return JsonDocument::parse(counts->second, record.path + ": counts of " + group);
}

uint64_t number_in(const JsonValue& counts, const char* name) {
  return static_cast<uint64_t>(counts[name].integer(0, INT64_MAX));
}

std::optional<double> mean_in(const JsonValue& counts, const char* name) {
  const auto text = counts.find(name);
  if (!text) return std::nullopt;
  const auto value = parse_number<double>(text->string());
  if (!value) throw text->error("expected a number");
  return value;
}

/// Of a group with samples, from what its record counts.
RolloutSummary summarize(const JsonValue& counts, const std::string& id) {
  RolloutSummary made;
  made.id = id;
  made.samples = number_in(counts, "samples");
  made.tokens = number_in(counts, "tokens");
  made.response_tokens = number_in(counts, "response_tokens");
  made.longest = number_in(counts, "longest_response");
  made.masked = number_in(counts, "masked_tokens");
  if (counts.find("groups")) made.groups = number_in(counts, "groups");
  made.reward = mean_in(counts, "reward_mean");
  made.log_prob = mean_in(counts, "log_prob_mean");
  if (const auto finish = counts.find("finish")) {
    made.finish.emplace();
    for (size_t i = 0; i < made.finish->size(); ++i) {
      (*made.finish)[i] = static_cast<uint64_t>(finish->at(i).integer(0, INT64_MAX));
    }
  }
  if (const auto versions = counts.find("versions")) {
    made.versions = {versions->at(0).integer(INT64_MIN, INT64_MAX),
                     versions->at(1).integer(INT64_MIN, INT64_MAX)};
  }
  return made;
}

/// Calls `use(record, group, counts)`, or where the record counts nothing `read(record, unit,
/// group)` with the unit, which is opened once.
template <class Use, class Read>
void for_each_group(const DumpReader& dump, const UnitRecord& record, Use use, Read read) {
  std::optional<format::UnitReader> unit;
  for (const std::string& group : record.groups) {
    if (const auto counts = counts_of(record, group)) {
      if (use(record, group, counts->root())) continue;
    }
    if (!unit) unit.emplace(dump.open_unit(record));
    read(record, *unit, group);
  }
}

/// Adds what a unit holds of samples.
void add_samples(const DumpReader& dump, const UnitRecord& record,
                 std::vector<RolloutSummary>& to) {
  for_each_group(
      dump, record,
      [&](const auto&, const std::string& group, const JsonValue& counts) {
        const bool samples = counts.find("samples").has_value();
        if (samples) to.push_back(summarize(counts, group));
        return samples;
      },
      [&](const auto&, const format::UnitReader& unit, const std::string& group) {
        if (unit.find(group + "/tokens") == nullptr) return;
        to.push_back(summarize(read_rollout_data(dump, unit, group), group));
      });
}

std::vector<RolloutSummary> rollouts(const DumpReader& dump) {
  std::vector<RolloutSummary> made;
  for (const UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) == "rollout") add_samples(dump, record, made);
  }
  std::sort(made.begin(), made.end(), [](const auto& a, const auto& b) {
    return std::pair(a.id.size(), a.id) < std::pair(b.id.size(), b.id);
  });
  return made;
}

/// Those that an import keeps aside, in units of their files' names.
std::vector<RolloutSummary> evaluations(const DumpReader& dump) {
  std::vector<RolloutSummary> made;
  for (const UnitRecord& record : dump.units()) {
    const std::string name = record.path.substr(record.path.rfind('/') + 1);
    if (record.path.starts_with("x-") && name.starts_with("eval_")) {
      add_samples(dump, record, made);
    }
  }
  return made;
}

struct StepSummary {
  std::string id;
  int64_t rank = 0;
  uint64_t samples = 0, tokens = 0;
  std::vector<std::string> columns;
  format::NamedColumns scalars;
  bool events = false;
};

StepSummary summarize(const DumpReader& dump, const UnitRecord& record,
                      const format::UnitReader& unit, const std::string& group) {
  StepSummary made;
  made.id = group;
  made.rank = format::rank_of(record.path);
  made.events = unit.find(group + "/events/digest") != nullptr;
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    if (unit.find(group + "/" + std::string(field.name)) != nullptr) {
      made.columns.emplace_back(field.name);
    }
  }
  if (unit.find(group + "/sample_id") == nullptr) return made;
  const TrainData data = read_train_data(dump, unit, group);
  made.samples = data.size();
  made.tokens = data.offsets.back();
  if (data.scalars) made.scalars = *data.scalars;
  return made;
}

/// Of a rank's step, from what its record counts.
StepSummary summarize(const UnitRecord& record, const std::string& group, const JsonValue& counts) {
  StepSummary made;
  made.id = group;
  made.rank = format::rank_of(record.path);
  made.events = counts["events"].boolean();
  std::set<std::string, std::less<>> names;
  const JsonValue columns = counts["columns"];
  for (size_t i = 0; i < columns.size(); ++i) names.insert(columns.at(i).string());
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    if (names.contains(field.name)) made.columns.emplace_back(field.name);
  }
  if (!counts.find("samples")) return made;
  made.samples = number_in(counts, "samples");
  made.tokens = number_in(counts, "tokens");
  if (const auto scalars = counts.find("scalars")) {
    for (size_t i = 0; i < scalars->size(); ++i) {
      made.scalars.names.push_back(scalars->at(i).at(0).string());
      const auto value = parse_number<double>(scalars->at(i).at(1).string());
      if (!value) throw scalars->at(i).error("expected a name and a number");
      made.scalars.values.push_back(*value);
    }
  }
  return made;
}

std::vector<StepSummary> steps(const DumpReader& dump) {
  std::vector<StepSummary> made;
  for (const UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) != "train") continue;
    for_each_group(
        dump, record,
        [&](const UnitRecord& of, const std::string& group, const JsonValue& counts) {
          made.push_back(summarize(of, group, counts));
          return true;
        },
        [&](const UnitRecord& of, const format::UnitReader& unit, const std::string& group) {
          made.push_back(summarize(dump, of, unit, group));
        });
  }
  return made;
}

std::string state(const DumpReader& dump) {
  if (!dump.sealed()) return "unfinished";
  if (dump.complete()) return "complete";
  const std::string died = unended_text(dump);
  return "closed after " + (died.empty() ? "its writer" : died) + " died";
}

std::string megabytes(uint64_t bytes) {
  const double value = static_cast<double>(bytes) / 1e6;
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f MB" : "%.0f MB", value);
  return text;
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

constexpr const char* kFinishNames[] = {"stop", "length", "aborted", "failed", "unknown"};

/// How the samples of each ended, in a column for every way that occurs.
std::string finish_table(const char* title, const std::vector<RolloutSummary>& of) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < std::size(kFinishNames); ++i) {
    if (std::ranges::any_of(of, [&](const auto& r) { return r.finish && (*r.finish)[i] > 0; })) {
      columns.push_back(i);
    }
  }
  if (columns.empty()) return "";
  std::vector<std::string> header = {title};
  for (const size_t i : columns) header.emplace_back(kFinishNames[i]);
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

std::string joined(const std::vector<std::string>& names, size_t width) {
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

constexpr char kContentInParts[] = "of parts in several units: rlreplay verify computes it";

/// Of which dump the numbers below are, and how it was made.
std::string head(const DumpReader& dump) {
  uint64_t bytes = 0;
  for (const UnitRecord& unit : dump.units()) bytes += unit.size;
  const auto content = recorded_content_root(dump);
  std::string out = "root     " + dump.root().hex() + "\ncontent  " +
                    (content ? content->hex() : kContentInParts) + "\nstate    " + state(dump) +
                    ", " + std::to_string(dump.units().size()) + " units, " + megabytes(bytes) +
                    "\n";
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
  return joined(step.columns, width) + (step.events ? " events" : "");
}

std::string steps_text(const std::vector<StepSummary>& of) {
  if (of.empty()) return "";
  const auto as_first = [&](const StepSummary& s) {
    return s.columns == of[0].columns && s.events == of[0].events;
  };
  const bool alike = std::ranges::all_of(of, as_first);
  std::vector<std::string> header = {"step", "rank", "samples", "tokens", "loss", "grad norm"};
  if (!alike) header.emplace_back("recorded");
  TextTable table(header);
  for (const StepSummary& s : of) {
    std::vector<std::string> row = {s.id,
                                    std::to_string(s.rank),
                                    std::to_string(s.samples),
                                    std::to_string(s.tokens),
                                    short_number(s.scalars.find("loss")),
                                    short_number(s.scalars.find("grad_norm"))};
    if (!alike) row.push_back(recorded_of(s, 34));
    table.add(row);
  }
  std::string out = "\n" + table.str();
  if (alike) out += wrapped("each with " + recorded_of(of[0], SIZE_MAX), kLineWidth, 2) + "\n";
  return out;
}

}  // namespace

std::string summary_text(const DumpReader& dump, bool temporary) {
  std::string out = temporary ? origin_text(dump) : head(dump);
  out += rollouts_text("rollout", rollouts(dump)) + rollouts_text("eval", evaluations(dump));
  return out + steps_text(steps(dump));
}

std::string summary_json(const DumpReader& dump, const std::string& incomplete) {
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
  std::string out = first.str() + "\n";
  for (const RolloutSummary& r : rollouts(dump)) {
    JsonLine line;
    line.text("schema", "rlreplay.show.rollout/1").json("rollout_id", r.id);
    line.integer("samples", static_cast<int64_t>(r.samples));
    line.integer("tokens", static_cast<int64_t>(r.tokens));
    line.integer("response_tokens", static_cast<int64_t>(r.response_tokens));
    line.integer("longest_response", static_cast<int64_t>(r.longest));
    line.number("reward_mean", r.reward).number("log_prob_mean", r.log_prob);
    out += line.str() + "\n";
  }
  for (const StepSummary& s : steps(dump)) {
    const StepId id = parse_step(s.id).value();
    JsonLine line;
    line.text("schema", "rlreplay.show.step/1").integer("rollout_id", id.rollout);
    line.integer("step_id", id.step).integer("rank", s.rank);
    line.integer("samples", static_cast<int64_t>(s.samples));
    line.integer("tokens", static_cast<int64_t>(s.tokens));
    line.json("columns", json_list(s.columns)).boolean("events", s.events);
    std::string scalars;
    for (size_t i = 0; i < s.scalars.names.size(); ++i) {
      const std::string value = JsonLine().number("", s.scalars.values[i]).str();
      scalars += (scalars.empty() ? "" : ",") + json_quoted(s.scalars.names[i]) +
                 value.substr(3, value.size() - 4);
    }
    out += line.json("scalars", "{" + scalars + "}").str() + "\n";
  }
  return out;
}

}  // namespace rlreplay::replay

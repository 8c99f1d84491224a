#include "src/replay/inspect/show_samples.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "format/group_name.h"
#include "format/rollout_data.h"
#include "format/rollout_join.h"
#include "src/base/json_line.h"
#include "src/base/text_table.h"

namespace rlreplay::replay {
namespace {

using format::parse_rollout;

constexpr size_t kShown = 512;  // bytes of a text, more than a line of the table shows

struct Line {
  std::string rollout, response, finish;
  uint64_t id = 0, prompt = 0, length = 0;
  std::optional<uint64_t> group;
  std::optional<double> reward, log_prob;  // the mean over the response
};

std::optional<double> mean_log_prob(const format::RolloutData& data, size_t s, uint64_t begin) {
  if (!data.log_probs || !data.log_probs->has(s) || begin == data.offsets[s + 1]) return {};
  double sum = 0;
  for (uint64_t t = begin; t < data.offsets[s + 1]; ++t) sum += data.log_probs->at(t);
  return sum / static_cast<double>(data.offsets[s + 1] - begin);
}

Line line_of(const format::RolloutData& data, const std::string& rollout, size_t s) {
  Line out;
  out.rollout = rollout;
  out.id = data.sample_id[s];
  out.prompt = data.prompt_length ? (*data.prompt_length)[s] : 0;
  out.length = data.offsets[s + 1] - data.offsets[s] - out.prompt;
  if (data.group_id && data.group_id->has(s)) out.group = data.group_id->values[s];
  if (data.rewards && data.rewards->has(s)) out.reward = data.rewards->values[s];
  out.log_prob = mean_log_prob(data, s, data.offsets[s] + out.prompt);
  out.finish = data.finish ? to_string((*data.finish)[s]) : "-";
  if (data.response_text && data.response_text->has(s)) out.response = data.response_text->at(s);
  return out;
}

/// What is held at once is bounded: a unit's columns are given back when its lines are made.
std::vector<Line> lines_of(const format::DumpReader& dump, const ShowOptions& options) {
  std::vector<Line> out;
  format::HeldBytes held;
  for (const format::UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) != "rollout") continue;
    const format::UnitReader unit = dump.open_unit(record);
    for (const std::string& group : record.groups) {
      if (options.rollout && std::to_string(*options.rollout) != group) continue;
      if (dump.find("rollout", group).front() == &record) format::check_samples_once(dump, group);
      if (holds_events_alone(unit, group)) continue;
      const uint64_t before = held.bytes();
      const format::RolloutData data = read_rollout_data(dump, unit, group, &held);
      const uint64_t read = held.bytes() - before;
      for (size_t s = 0; s < data.size(); ++s) {
        out.push_back(line_of(data, group, s));
        std::string& text = out.back().response;
        if (!options.json && text.size() > kShown) text = text.substr(0, kShown);
        held.hold(record, "", sizeof(Line) + text.size());
      }
      held.give_back(read);
    }
  }
  std::ranges::stable_sort(out, {}, [](const Line& line) { return parse_rollout(line.rollout); });
  return out;
}

std::string json(const Line& line) {
  JsonLine out;
  out.text("schema", "rlreplay.show.line/1").json("rollout_id", line.rollout);
  out.json("sample_id", std::to_string(line.id));
  line.group ? out.json("group_id", std::to_string(*line.group)) : out.null("group_id");
  out.integer("prompt_length", static_cast<int64_t>(line.prompt));
  out.integer("response_length", static_cast<int64_t>(line.length));
  out.number("reward", line.reward).number("log_prob_mean", line.log_prob);
  out.text("finish", line.finish).text("response", line.response);
  return out.str() + "\n";
}

}  // namespace

std::string show_samples(const format::DumpReader& dump, const ShowOptions& options) {
  std::vector<Line> lines = lines_of(dump, options);
  if (options.sort == "length") {
    std::ranges::stable_sort(lines, std::ranges::greater(), &Line::length);
  } else if (options.sort == "reward") {
    std::ranges::stable_sort(lines, std::ranges::less(), [](const Line& line) {
      return line.reward.value_or(-std::numeric_limits<double>::infinity());
    });
  }
  std::string out;
  TextTable table(
      {"rollout", "sample", "group", "prompt", "response", "reward", "log-prob", "finish"});
  std::vector<std::string> texts;
  for (const Line& line : lines) {
    if (options.json) {
      out += json(line);
      continue;
    }
    table.add({line.rollout, std::to_string(line.id),
               line.group ? std::to_string(*line.group) : "-", std::to_string(line.prompt),
               std::to_string(line.length), short_number(line.reward), short_number(line.log_prob),
               line.finish});
    texts.push_back(line.response);
  }
  table.add_texts("text", texts);
  return options.json ? out : table.str();
}

}  // namespace rlreplay::replay

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "format/record.h"
#include "format/train_ranks.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/replay/exchange/cell.h"
#include "src/replay/exchange/jsonl.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/step_id.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::TrainData;

void append_bits(std::string& out, uint64_t bits, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "\"%0*llx\"", digits, static_cast<unsigned long long>(bits));
  out += text;
}

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) return append_bits(out, std::bit_cast<uint64_t>(value), 16);
  if (value == 0 && std::signbit(value)) {  // readers take -0 for an integer, which has no sign
    out += "-0.0";
    return;
  }
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

/// Readers round twice, to binary64 and then to binary32: where that would change the shortest
/// decimal's bits, nine digits are written, which are safe.
void append_number(std::string& out, float value) {
  if (!std::isfinite(value)) return append_bits(out, std::bit_cast<uint32_t>(value), 8);
  if (value == 0 && std::signbit(value)) {
    out += "-0.0";
    return;
  }
  char text[32];
  char* end = std::to_chars(text, text + sizeof text, value).ptr;
  double read = 0;
  std::from_chars(text, end, read);
  if (static_cast<float>(read) != value) {
    end = text + std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  }
  out.append(text, end);
}

template <class T>
void append_number(std::string& out, T value) {
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

template <class Values>
std::string list(const Values& values) {
  std::string out = "[";
  for (const auto value : values) {
    if (out.size() > 1) out += ',';
    append_number(out, value);
  }
  return out + "]";
}

std::string list(const Cell& cell) {
  return std::visit(
      [](auto values) -> std::string {
        if constexpr (std::is_same_v<decltype(values), std::string_view>) {
          return json_quoted(values);
        } else {
          return list(values);
        }
      },
      cell);
}

template <class T>
std::span<const T> part(const std::vector<T>& values, uint64_t begin, uint64_t end) {
  return std::span<const T>(values).subspan(begin, end - begin);
}

std::string number(double value) {
  std::string out;
  append_number(out, value);
  return out;
}

std::string named(const format::NamedColumns& columns, size_t row) {
  std::string out;
  for (size_t k = 0; k < columns.names.size(); ++k) {
    out += (out.empty() ? "{" : ",") + json_quoted(columns.names[k]) + ":" +
           number(columns.values[row * columns.names.size() + k]);
  }
  return out.empty() ? "{}" : out + "}";
}

/// Readers of JSON sort an object's keys: the order of columns is written where it is another.
void put_named(JsonLine& line, std::string_view key, const format::NamedColumns& columns,
               size_t row) {
  line.json(key, named(columns, row));
  if (std::is_sorted(columns.names.begin(), columns.names.end())) return;
  std::string names;
  for (const std::string& name : columns.names) {
    names += (names.empty() ? "[" : ",") + json_quoted(name);
  }
  line.json("columns", names + "]");
}

template <class Data>
void put_cell(JsonLine& line, const Data& data, std::string_view key, std::string_view dataset,
              size_t s) {
  if (const std::optional<Cell> cell = find_cell(data, dataset, s)) line.json(key, list(*cell));
}

void put_number(JsonLine& line, std::string_view key,
                const std::optional<format::Column<uint64_t>>& column, size_t s) {
  if (column && column->has(s)) line.json(key, std::to_string(column->values[s]));
}

/// The calls of a sample, each an object; a number that was not recorded is left out.
std::string calls_json(const format::Calls& calls, size_t s) {
  std::string out;
  for (uint64_t c = calls.offsets[s]; c < calls.offsets[s + 1]; ++c) {
    JsonLine line;
    line.integer("first", calls.first[c]).integer("length", calls.length[c]);
    if (calls.finish) line.text("finish", to_string((*calls.finish)[c]));
    if (calls.truncated && (*calls.truncated)[c] == 255) {
      line.null("truncated");
    } else if (calls.truncated) {
      line.boolean("truncated", (*calls.truncated)[c] == 1);
    }
    if (calls.version) line.integer("version", (*calls.version)[c]);
    if (calls.seed) line.json("seed", std::to_string((*calls.seed)[c]));
    for (size_t k = 0; calls.numbers && k < calls.numbers->names.size(); ++k) {
      const double value = calls.numbers->values[c * calls.numbers->names.size() + k];
      if (!std::isnan(value)) line.json(calls.numbers->names[k], number(value));
    }
    out += (out.empty() ? "" : ",") + line.str();
  }
  return "[" + out + "]";
}

std::string experts_json(const RolloutData& data, size_t s) {
  const format::Experts& of = *data.experts;
  const uint64_t begin = data.offsets[s], end = data.offsets[s + 1], row = of.layers * of.slots;
  JsonLine line;
  line.json("layers", std::to_string(of.layers)).json("slots", std::to_string(of.slots));
  line.json("ids", list(part(of.experts, begin * row, end * row)));
  if (of.layer_ids) line.json("layer_ids", list(*of.layer_ids));
  if (of.gates) line.json("gates", list(part(*of.gates, begin * row, end * row)));
  if (of.recorded) line.json("recorded", list(part(*of.recorded, begin, end)));
  return line.str();
}

/// Samples made from more than their tokens: without the key they would be taken for others.
void put_inputs(JsonLine& line, const std::set<uint64_t>& others, uint64_t sample) {
  if (others.contains(sample)) line.boolean("other_inputs", true);
}

std::string sample_line(const RolloutData& data, const std::string& id, size_t s,
                        const std::set<uint64_t>& others) {
  JsonLine line;
  line.text("schema", "rlreplay.sample/1").json("rollout_id", id);
  line.json("sample_id", std::to_string(data.sample_id[s]));
  if (data.prompt_length) line.integer("prompt_length", (*data.prompt_length)[s]);
  put_cell(line, data, "tokens", "tokens", s);
  if (data.group_id && data.group_id->has(s)) {
    line.json("group_id", std::to_string(data.group_id->values[s]));
  }
  put_number(line, "trajectory_id", data.trajectory_id, s);
  put_cell(line, data, "log_probs", "log_probs", s);
  if (data.log_probs && data.log_probs->is_wide()) line.json("wide", "[\"log_probs\"]");
  put_cell(line, data, "loss_mask", "loss_mask", s);
  if (data.removed && data.removed->has(s)) line.boolean("removed", data.removed->values[s] != 0);
  if (data.rewards && data.rewards->has(s)) line.json("reward", number(data.rewards->values[s]));
  if (data.reward_components && format::is_present(data.reward_components->presence, s)) {
    put_named(line, "reward_components", *data.reward_components, s);
  }
  if (data.finish) line.text("finish", to_string((*data.finish)[s]));
  if (data.versions) {
    const uint64_t begin = data.versions->offsets[s];
    const uint64_t end = data.versions->offsets[s + 1];
    line.json("versions", list(part(data.versions->versions, begin, end)));
    if (data.versions->starts) {
      line.json("version_starts", list(part(*data.versions->starts, begin, end)));
    }
  }
  if (data.calls) line.json("calls", calls_json(*data.calls, s));
  if (data.roles && data.roles->has(s)) {
    line.json("roles", list(part(data.roles->values, data.offsets[s], data.offsets[s + 1])));
  }
  put_cell(line, data, "prompt", "prompt_text", s);
  put_cell(line, data, "response", "response_text", s);
  put_cell(line, data, "label", "label_text", s);
  if (data.nucleus && data.nucleus->has(s)) {
    const uint64_t prompt = data.prompt_length ? (*data.prompt_length)[s] : 0;
    const auto& [offsets, sizes, ids, presence] = *data.nucleus;
    line.json("nucleus",
              "{\"sizes\":" + list(part(sizes, data.offsets[s] + prompt, data.offsets[s + 1])) +
                  ",\"ids\":" + list(part(ids, offsets[s], offsets[s + 1])) + "}");
  }
  if (data.experts) line.json("experts", experts_json(data, s));
  put_inputs(line, others, data.sample_id[s]);
  return line.str();
}

/// The members that name a step and a rank.
JsonLine step_head(const char* schema, const std::string& group, int64_t rank) {
  const StepId id = parse_step(group).value();
  JsonLine line;
  line.text("schema", schema).integer("rollout_id", id.rollout);
  line.integer("step_id", id.step).integer("rank", rank);
  return line;
}

std::string train_line(const TrainData& data, JsonLine line, size_t s,
                       const std::set<uint64_t>& others) {
  line.json("sample_id", std::to_string(data.sample_id[s]));
  line.integer("length", static_cast<int64_t>(data.offsets[s + 1] - data.offsets[s]));
  if (data.prompt_length) line.integer("prompt_length", (*data.prompt_length)[s]);
  put_cell(line, data, "tokens", "tokens", s);
  if (data.micro_batch) line.integer("micro_batch", (*data.micro_batch)[s]);
  put_cell(line, data, "loss_mask", "loss_mask", s);
  if (data.rewards && data.rewards->has(s)) line.json("reward", number(data.rewards->values[s]));
  put_number(line, "trajectory_id", data.trajectory_id, s);
  put_number(line, "trajectory_tokens", data.trajectory_tokens, s);
  if (data.token_weights) {
    line.json("token_weights",
              list(part(*data.token_weights, data.offsets[s], data.offsets[s + 1])));
  }
  std::string wide;
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    put_cell(line, data, field.name, field.name, s);
    const auto& column = data.*field.column;
    if (!column || !column->is_wide()) continue;
    wide += (wide.empty() ? "[" : ",") + json_quoted(field.name);
  }
  if (!wide.empty()) line.json("wide", wide + "]");
  put_inputs(line, others, data.sample_id[s]);
  return line.str();
}

/// Whether a sample of a rollout is written.
bool is_chosen(const std::optional<ChosenSamples>& chosen, const std::string& rollout,
               uint64_t sample) {
  if (!chosen) return true;
  const auto ids = chosen->find(rollout);
  return ids != chosen->end() && ids->second.contains(sample);
}

void export_rollouts(const format::DumpReader& dump, const format::UnitRecord& unit,
                     const std::optional<ChosenSamples>& chosen, const TextSink& sink) {
  const format::UnitReader reader = dump.open_unit(unit);
  for (const std::string& group : unit.groups) {
    if (holds_events_alone(reader, group)) continue;
    const RolloutData data = read_rollout_data(dump, reader, group);
    const std::set<uint64_t> others = samples_with_inputs(dump, group);
    for (size_t s = 0; s < data.size(); ++s) {
      if (!is_chosen(chosen, group, data.sample_id[s])) continue;
      sink(sample_line(data, group, s, others) + '\n');
    }
  }
}

void export_steps(const format::DumpReader& dump, const format::UnitRecord& unit,
                  const std::optional<ChosenSamples>& chosen, const TextSink& sink) {
  const format::UnitReader reader = dump.open_unit(unit);
  const int64_t rank = format::rank_of(unit.path);
  for (const std::string& group : unit.groups) {
    const std::string rollout = std::to_string(parse_step(group).value().rollout);
    if (chosen && !chosen->contains(rollout)) continue;
    if (reader.find(group + "/sample_id") == nullptr) continue;  // events alone
    format::HeldBytes held;
    const TrainData data = read_train_rank(dump, reader, group, held);
    const std::set<uint64_t> others = samples_with_inputs(dump, rollout);
    bool said = false;
    for (size_t s = 0; s < data.size(); ++s) {
      if (!is_chosen(chosen, rollout, data.sample_id[s])) continue;
      said = true;
      sink(train_line(data, step_head("rlreplay.train/1", group, rank), s, others) + '\n');
    }
    if (!data.scalars && (said || format::ranks_of(dump.meta()) == 1)) continue;
    JsonLine line = step_head("rlreplay.step/1", group, rank);
    if (data.scalars) {
      put_named(line, "scalars", *data.scalars, 0);
    } else {
      line.json("scalars", "{}");  // a step without one of its ranks is refused
    }
    sink(line.str() + '\n');
  }
}

}  // namespace

void export_jsonl(const format::DumpReader& dump, const std::optional<ChosenSamples>& chosen,
                  const TextSink& sink) {
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) == "rollout") export_rollouts(dump, unit, chosen, sink);
  }
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) == "train") export_steps(dump, unit, chosen, sink);
  }
}

}  // namespace rlreplay::replay

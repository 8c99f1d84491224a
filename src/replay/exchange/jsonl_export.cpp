#include <algorithm>
#include <bit>
#include <cmath>

#include "format/record.h"
#include "format/rollout_join.h"
#include "format/train_ranks.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/words.h"
#include "src/replay/exchange/jsonl.h"
#include "src/replay/exchange/jsonl_form.h"
#include "src/replay/exchange/jsonl_row.h"
#include "src/replay/exchange/unsaid.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {
namespace {

using format::Axis;
using format::RolloutData;
using format::TrainData;
using jsonl::key_of;

void append_bits(std::string& out, uint64_t bits, int digits) {
  out += '"' + hex(bits, digits) + '"';
}

void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) return append_bits(out, std::bit_cast<uint64_t>(value), 16);
  out += json_number(value);
}

/// Readers round twice, to binary64 and then to binary32: where that would change the shortest
/// decimal's bits, nine digits are written, which are safe.
void append_number(std::string& out, float value) {
  if (!std::isfinite(value)) return append_bits(out, std::bit_cast<uint32_t>(value), 8);
  if (value == 0) {
    out += json_number(static_cast<double>(value));
    return;
  }
  const std::string text = shortest(value);
  const bool safe = static_cast<float>(*parse_number<double>(text)) == value;
  out += safe ? text : formatted("%.9g", static_cast<double>(value));
}

template <class T>
void append_number(std::string& out, T value) {
  out += shortest(value);
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

/// Writes what columns of each form say of one sample.
template <class Data>
class ColumnWriter {
 public:
  ColumnWriter(JsonLine& line, const Data& data, size_t row)
      : line_(line), row_(row), begin_(data.offsets[row]), end_(data.offsets[row + 1]) {
    prompt_ = data.prompt_length ? (*data.prompt_length)[row] : 0;
  }

  template <class T>
  void write(std::string_view name, const std::optional<T>& column, Axis axis) {
    if (column) write(name, *column, axis);
  }
  template <class T>
  void write(std::string_view name, const std::vector<T>& values, Axis axis) {
    if (axis == Axis::kSample) return put_value(name, values[row_]);
    line_.json(key_of(name), list(part(values, first(axis), end_)));
  }
  void write(std::string_view name, const std::vector<format::Finish>& codes, Axis) {
    line_.text(name, to_string(codes[row_]));
  }
  template <class T>
  void write(std::string_view name, const format::Column<T>& column, Axis axis) {
    if (column.has(row_)) write(name, column.values, axis);
  }
  void write(std::string_view name, const format::TokenFloats& column, Axis axis) {
    if (column.is_wide()) wide_ += (wide_.empty() ? "[" : ",") + json_quoted(name);
    if (!column.has(row_)) return;
    column.is_wide() ? write(name, column.wide, axis) : write(name, column.narrow, axis);
  }
  void write(std::string_view name, const format::Texts& texts, Axis) {
    if (texts.has(row_)) line_.text(key_of(name), texts.at(row_));
  }
  void write(std::string_view name, const format::NamedColumns& columns, Axis) {
    if (format::is_present(columns.presence, row_)) put_named(line_, name, columns, row_);
  }
  void write(std::string_view name, const format::Versions& of, Axis) {
    const uint64_t begin = of.offsets[row_], end = of.offsets[row_ + 1];
    line_.json(name, list(part(of.versions, begin, end)));
    if (of.starts) line_.json("version_starts", list(part(*of.starts, begin, end)));
  }
  void write(std::string_view name, const format::Calls& calls, Axis) {
    line_.json(name, calls_json(calls, row_));
  }
  void write(std::string_view name, const format::TokenSets& of, Axis axis) {
    if (!of.has(row_)) return;
    JsonLine sets;
    sets.json("sizes", list(part(of.sizes, first(axis), end_)));
    sets.json("ids", list(part(of.ids, of.offsets[row_], of.offsets[row_ + 1])));
    line_.json(name, sets.str());
  }
  void write(std::string_view name, const format::Experts& of, Axis) {
    const uint64_t width = of.layers * of.slots;
    JsonLine line;
    line.json("layers", std::to_string(of.layers)).json("slots", std::to_string(of.slots));
    line.json("ids", list(part(of.experts, begin_ * width, end_ * width)));
    if (of.layer_ids) line.json("layer_ids", list(*of.layer_ids));
    if (of.gates) line.json("gates", list(part(*of.gates, begin_ * width, end_ * width)));
    if (of.recorded) line.json("recorded", list(part(*of.recorded, begin_, end_)));
    line_.json(name, line.str());
  }

  void finish() {
    if (!wide_.empty()) line_.json("wide", wide_ + "]");
  }

 private:
  uint64_t first(Axis axis) const { return axis == Axis::kResponse ? begin_ + prompt_ : begin_; }

  template <class T>
  void put_value(std::string_view name, T value) {
    std::string text;
    append_number(text, value);
    line_.json(key_of(name), text);
  }
  void put_value(std::string_view name, uint8_t value) { line_.boolean(name, value != 0); }

  JsonLine& line_;
  size_t row_;
  uint64_t begin_, end_, prompt_ = 0;
  std::string wide_;  // names of columns
};

/// Samples made from more than their tokens: without the key they would be taken for others.
void put_inputs(JsonLine& line, const std::set<uint64_t>& others, uint64_t sample) {
  if (others.contains(sample)) line.boolean("other_inputs", true);
}

std::string sample_line(const RolloutData& data, const std::string& id, size_t s,
                        const std::set<uint64_t>& others) {
  JsonLine line;
  line.text("schema", "rlreplay.sample/1").json("rollout_id", id);
  line.json("sample_id", std::to_string(data.sample_id[s]));
  ColumnWriter<RolloutData> writer(line, data, s);
  format::for_each_rollout_column([&](std::string_view name, auto member, Axis axis) {
    writer.write(name, data.*member, axis);
  });
  writer.finish();
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
  ColumnWriter<TrainData> writer(line, data, s);
  format::for_each_train_column([&](std::string_view name, auto member, Axis axis) {
    writer.write(name, data.*member, axis);
  });
  writer.finish();
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
                     const std::optional<ChosenSamples>& chosen, const TextSink& sink,
                     Unsaid& unsaid) {
  const format::UnitReader reader = dump.open_unit(unit);
  for (const std::string& group : unit.groups) {
    if (dump.find("rollout", group).front() == &unit) format::check_samples_once(dump, group);
    if (holds_events_alone(reader, group)) continue;
    if (chosen && !chosen->contains(group)) continue;
    const auto read = std::make_shared<RolloutData>(read_rollout_data(dump, reader, group));
    RolloutData& data = *read;
    jsonl::keep_what_lines_say(data);
    unsaid.compare(dump, reader, group, to_datasets(read, group));
    if (data.size() == 0) unsaid.add_empty(reader);
    const std::set<uint64_t> others = samples_with_inputs(dump, group);
    for (size_t s = 0; s < data.size(); ++s) {
      if (!is_chosen(chosen, group, data.sample_id[s])) continue;
      sink(sample_line(data, group, s, others) + '\n');
    }
  }
}

void export_steps(const format::DumpReader& dump, const format::UnitRecord& unit,
                  const std::optional<ChosenSamples>& chosen, const TextSink& sink,
                  Unsaid& unsaid) {
  const format::UnitReader reader = dump.open_unit(unit);
  const int64_t rank = format::rank_of(unit.path);
  for (const std::string& group : unit.groups) {
    const std::string rollout = std::to_string(parse_step(group).value().rollout);
    if (chosen && !chosen->contains(rollout)) continue;
    if (reader.find(group + "/sample_id") == nullptr) {  // events alone
      unsaid.compare(dump, reader, group, {});
      continue;
    }
    format::HeldBytes held;
    const auto read = std::make_shared<TrainData>(read_train_rank(dump, reader, group, held));
    TrainData& data = *read;
    jsonl::keep_what_lines_say(data);
    unsaid.compare(dump, reader, group, to_datasets(read, group));
    const std::set<uint64_t> others = samples_with_inputs(dump, rollout);
    bool said = false;
    for (size_t s = 0; s < data.size(); ++s) {
      if (!is_chosen(chosen, rollout, data.sample_id[s])) continue;
      said = true;
      sink(train_line(data, step_head("rlreplay.train/1", group, rank), s, others) + '\n');
    }
    if (!data.scalars && (said || format::ranks_of(dump.meta()) == 1)) {
      if (data.size() == 0) unsaid.add_empty(reader);
      continue;
    }
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

std::vector<std::string> export_jsonl(const format::DumpReader& dump,
                                      const std::optional<ChosenSamples>& chosen,
                                      const TextSink& sink) {
  Unsaid unsaid("lines of JSON");
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) == "rollout") {
      export_rollouts(dump, unit, chosen, sink, unsaid);
    }
  }
  for (const format::UnitRecord& unit : dump.units()) {
    if (format::kind_of(unit.path) == "train") {
      export_steps(dump, unit, chosen, sink, unsaid);
    }
  }
  return unsaid.lines();
}

}  // namespace rlreplay::replay

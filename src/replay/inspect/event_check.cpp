#include "src/replay/inspect/event_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "format/held_bytes.h"
#include "format/record.h"
#include "format/rollout_data.h"
#include "format/rule.h"
#include "format/train_data.h"
#include "format/train_ranks.h"
#include "kernels/order.h"
#include "src/base/error.h"
#include "src/base/same_value.h"
#include "src/base/words.h"
#include "src/events/event_rows.h"
#include "src/events/name.h"
#include "src/events/recording_sink.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

using engine::EventRecord;
using engine::RowSet;
using engine::StepEvents;
using format::RolloutData;
using format::TrainData;

/// What a column has for the rows of a set: zeros for those of samples without a value.
struct ColumnValues {
  std::vector<std::byte> bytes;
  std::vector<bool> present;
  bool exact = true;  // as recorded: no value was rounded to the event's type

  bool whole() const { return std::ranges::find(present, false) == present.end(); }
};

/// Nothing where the group has no such column, or a row is of no sample.
using Column = std::function<std::optional<ColumnValues>(const RowSet& rows)>;

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

/// Calls use(row of the sample, token); false where a row is of no sample.
template <class Data, class Use>
bool for_each_row(const RowSet& rows, const Data& data, Use use) {
  std::unordered_map<uint64_t, size_t> places;
  for (size_t s = 0; s < data.sample_id.size(); ++s) places.emplace(data.sample_id[s], s);
  for (const engine::RowRun& run : rows) {
    const auto at = places.find(run.sample);
    if (at == places.end()) return false;
    const size_t row = at->second;
    const uint64_t length = data.offsets[row + 1] - data.offsets[row];
    for (int64_t p = run.position; p < run.position + run.count; ++p) {
      if (static_cast<uint64_t>(p) >= length) return false;
      use(row, data.offsets[row] + p);
    }
  }
  return true;
}

template <class Data>
Column floats_of(const Data& data, const std::optional<format::TokenFloats>& column) {
  return [&](const RowSet& rows) -> std::optional<ColumnValues> {
    if (!column) return std::nullopt;
    ColumnValues out;
    const bool known = for_each_row(rows, data, [&](size_t row, uint64_t token) {
      const double recorded = column->at(token);
      const auto value = static_cast<float>(recorded);
      append(out.bytes, value);
      out.present.push_back(column->has(row));
      out.exact = out.exact && (!column->has(row) || same_value(recorded, double{value}));
    });
    return known ? std::optional(std::move(out)) : std::nullopt;
  };
}

Column tokens_of(const RolloutData& data) {
  return [&](const RowSet& rows) -> std::optional<ColumnValues> {
    ColumnValues out;
    const bool known = for_each_row(rows, data, [&](size_t, uint64_t token) {
      append(out.bytes, data.tokens[token]);
      out.present.push_back(true);
    });
    return known ? std::optional(std::move(out)) : std::nullopt;
  };
}

struct NamedColumn {
  const char *event, *dataset;
  Column values;
};

struct NamedScalar {
  const char *event, *name;
};
constexpr NamedScalar kScalars[] = {{"objective/-/loss/total", "loss"},
                                    {"objective/-/loss/policy", "pg_loss"},
                                    {"objective/-/loss/entropy", "entropy"},
                                    {"objective/-/loss/kl", "kl"},
                                    {"objective/-/loss/clip_fraction", "clip_fraction"},
                                    {"clip/-/clip/norm", "grad_norm"},
                                    {"clip/-/clip/scale", "clip_scale"}};

std::vector<NamedColumn> columns_of(const TrainData& data, const RolloutData* rollout) {
  std::vector<NamedColumn> out = {
      {"forward/-/log_prob/log_prob", "log_probs", floats_of(data, data.log_probs)},
      {"forward/-/log_prob/entropy", "entropy", floats_of(data, data.entropy)},
      {"objective/-/targets/advantage", "advantages", floats_of(data, data.advantages)},
      {"objective/-/targets/old_log_prob", "old_log_probs", floats_of(data, data.old_log_probs)},
      {"objective/-/targets/ref_log_prob", "ref_log_probs", floats_of(data, data.ref_log_probs)}};
  if (rollout == nullptr) return out;
  out.push_back({"forward/-/batch/token", "tokens", tokens_of(*rollout)});
  out.push_back({"objective/-/targets/rollout_log_prob", "rollout's log_probs",
                 floats_of(*rollout, rollout->log_probs)});
  return out;
}

std::vector<NamedColumn> columns_of(const RolloutData& data) {
  return {{"rollout/-/batch/token", "tokens", tokens_of(data)},
          {"rollout/-/sample/token", "tokens", tokens_of(data)},
          {"rollout/-/sample/log_prob", "log_probs", floats_of(data, data.log_probs)}};
}

std::vector<engine::SampleShape> shapes_of(const RolloutData& data,
                                           const std::vector<uint64_t>& ids) {
  std::vector<engine::SampleShape> out;
  const std::unordered_set<uint64_t> wanted(ids.begin(), ids.end());
  for (size_t s = 0; s < data.size(); ++s) {
    if (!wanted.contains(data.sample_id[s]) || !data.prompt_length) continue;
    out.push_back({data.sample_id[s], static_cast<int64_t>((*data.prompt_length)[s]),
                   static_cast<int64_t>(data.offsets[s + 1] - data.offsets[s])});
  }
  return out;
}

/// The events of one group of one unit.
class GroupCheck {
 public:
  GroupCheck(const ModelConfig& model, const ParameterTable& parameters, ThreadPool& pool,
             const StepEvents& events)
      : model_(model), parameters_(parameters), events_(events), pool_(pool) {}

  /// Calls report(event, message). Returns what could not be checked.
  template <class Report>
  std::vector<std::string> run(const std::vector<engine::SampleShape>* shapes,
                               const std::vector<NamedColumn>& columns,
                               const format::NamedColumns* scalars, Report report) {
    for (const EventRecord& r : events_.events) {
      if (const std::string what = form(r, shapes); !what.empty()) {
        report(to_string(r.event), what);
        sound_ = false;
      }
    }
    if (!sound_) return {};  // nothing can be digested under other names and shapes
    for (const EventRecord& r : events_.events) {
      if (is_named(r.event)) continue;
      if (const std::string what = sums(r); !what.empty()) report(to_string(r.event), what);
    }
    check_values(report);
    check_columns(columns, report);
    if (scalars != nullptr) check_scalars(*scalars, report);
    if (named_ > 0) {
      not_checked_.push_back("digests of " + counted(named_, "event") +
                             " of another table than docs/events.md");
    }
    return std::move(not_checked_);
  }

 private:
  std::string form(const EventRecord& r, const std::vector<engine::SampleShape>* shapes) const {
    const engine::EventSpec* spec = find_event(r.event);
    if (spec == nullptr) {
      ++named_;
      return {};
    }
    if (is_parameter(spec->kind) && std::ranges::find(parameters_.list, r.event.tensor,
                                                      &Parameter::name) == parameters_.list.end()) {
      return "the model has no such parameter";
    }
    if (engine::digest_plan(r.event, model_, parameters_).dims != r.dims) {
      return "its dimensions are not the model's";
    }
    if (shapes != nullptr && is_per_token(spec->kind) &&
        rows_of(r) != engine::event_rows(*spec, *shapes)) {
      return "its rows are not the tokens of the samples";
    }
    return {};
  }

  const RowSet& rows_of(const EventRecord& r) const {
    return events_.row_sets[static_cast<size_t>(r.row_set)];
  }

  static std::string sums(const EventRecord& r) {
    if (!r.row_digests.empty()) {
      Digest sum;
      for (const Digest& row : r.row_digests) sum += row;
      if (!(sum == r.digest)) return "its digest is not the sum of its rows' digests";
    }
    if (!r.stats) return {};
    const engine::Stats& s = *r.stats;
    const bool ordered = s.min <= s.max && s.rms >= 0 &&
                         s.rms <= std::max(std::abs(s.min), std::abs(s.max)) * (1 + 0x1p-20);
    return ordered ? "" : "its statistics contradict one another";
  }

  /// Shows one tensor to a sink of its own.
  EventRecord digested(const EventRecord& like, const std::vector<std::byte>& values) const {
    engine::RecordOptions options{engine::Granularity::kOps, like.stats.has_value(), false};
    engine::RecordingSink sink(model_, parameters_, kernels::kTokenLeaf, options, pool_);
    std::vector<std::byte> copy = values;
    const engine::EventView view{like.dtype, copy.data(), like.rows, like.cols, like.cols};
    if (like.row_set < 0) {
      sink.whole(like.event, view);
    } else {
      std::vector<uint64_t> sample;
      std::vector<int32_t> position;
      for (const engine::RowRun& run : rows_of(like)) {
        for (int64_t p = run.position; p < run.position + run.count; ++p) {
          sample.push_back(run.sample);
          position.push_back(static_cast<int32_t>(p));
        }
      }
      sink.rows(like.event, view, {sample.data(), position.data()});
    }
    return std::move(sink.finish(0, 0).events.front());
  }

  template <class Report>
  void check_values(Report report) const {
    for (const EventRecord& r : events_.events) {
      if (r.values.empty() || is_named(r.event)) continue;
      const EventRecord found = digested(r, r.values);
      if (!found.same_value(r)) {
        report(to_string(r.event), "its values do not have its digest");
      } else if (r.stats && found.stats != r.stats) {
        report(to_string(r.event), "its statistics are not those of its values");
      } else if (!r.row_digests.empty() && found.row_digests != r.row_digests) {
        report(to_string(r.event), "its rows' digests are not those of its values");
      }
    }
  }

  template <class Report>
  void check_columns(const std::vector<NamedColumn>& columns, Report report) {
    for (const NamedColumn& column : columns) {
      const EventRecord* r = events_.find(engine::parse_event(column.event));
      if (r == nullptr) continue;
      const auto values = column.values(rows_of(*r));
      if (!values) continue;
      const std::string event = std::string("the event ") + column.event;
      if (!values->whole() && r->values.empty()) {
        not_checked_.push_back(std::string(column.dataset) + " of some samples alone, since " +
                               event + " has a digest of all");
      } else if (!values->exact || !(values->whole() ? digested(*r, values->bytes).same_value(*r)
                                                     : same_rows(*values, *r))) {
        report(column.dataset, "not what " + event + " digested");
      }
    }
  }

  /// Whether the rows that a column of floats has are those of the event's values.
  static bool same_rows(const ColumnValues& column, const EventRecord& r) {
    for (size_t row = 0; row < column.present.size(); ++row) {
      if (column.present[row] &&
          !same_value(float_at(column.bytes, row), float_at(r.values, row))) {
        return false;
      }
    }
    return true;
  }

  static float float_at(const std::vector<std::byte>& bytes, size_t row) {
    float out;
    std::memcpy(&out, bytes.data() + row * sizeof out, sizeof out);
    return out;
  }

  template <class Report>
  void check_scalars(const format::NamedColumns& scalars, Report report) const {
    for (const NamedScalar& scalar : kScalars) {
      const EventRecord* r = events_.find(engine::parse_event(scalar.event));
      const auto value = scalars.find(scalar.name);
      if (r == nullptr || !value) continue;
      std::vector<std::byte> bytes;
      const auto narrow = static_cast<float>(*value);
      r->dtype == DType::kF32 ? append(bytes, narrow) : append(bytes, *value);
      const bool exact = r->dtype != DType::kF32 || same_value(*value, double{narrow});
      if (exact && digested(*r, bytes).same_value(*r)) continue;
      report(std::string("scalars/") + scalar.name,
             std::string("not what the event ") + scalar.event + " digested");
    }
  }

  const ModelConfig& model_;
  const ParameterTable& parameters_;
  const StepEvents& events_;
  ThreadPool& pool_;
  bool sound_ = true;
  std::vector<std::string> not_checked_;
  mutable size_t named_ = 0;  // events of other tables than ours
};

class RunCheck {
 public:
  RunCheck(const RecordedRun& record, const ModelConfig& model, ThreadPool& pool)
      : record_(record), model_(model), parameters_(make_parameters(model)), pool_(pool) {}

  RecordFindings run() {
    for (const int64_t id : record_.rollouts()) {
      where_ = "rollout/" + std::to_string(id);
      guarded([&] { check_rollout(id); });
    }
    for (const StepId& step : record_.steps()) {
      where_ = "train/" + step.group();
      guarded([&] { check_step(step); });
    }
    return {std::move(problems_).take(), std::move(not_checked_)};
  }

 private:
  /// What would end a replay is a finding.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const format::FormatError& error) {
      add(std::string(to_string(error.rule())), error.problem().dataset, error.what());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kIncomplete) throw;
      add("not-replayable", "", error.what());
    }
  }

  void add(const std::string& code, const std::string& dataset, const std::string& message) {
    problems_.add({code, where_, dataset, message});
  }

  auto reporter() {
    return [this](const std::string& dataset, const std::string& message) {
      add("event", dataset, message);
    };
  }

  void note(const std::vector<std::string>& not_checked) {
    for (const std::string& what : not_checked) not_checked_.push_back(where_ + ": " + what);
  }

  const RolloutData* rollout(int64_t id) {
    if (loaded_ != id) data_ = find_rollout_data(record_.dump(), id);
    loaded_ = id;
    return data_ ? &*data_ : nullptr;
  }

  void check_rollout(int64_t id) {
    const RolloutData* data = rollout(id);
    if (data == nullptr) return;
    const StepEvents events = record_.rollout_events(id);
    if (events.events.empty()) return;
    check_ranks(events, std::nullopt);
    const auto shapes = shapes_of(*data, data->sample_id);
    GroupCheck check(model_, parameters_, pool_, events);
    note(check.run(&shapes, columns_of(*data), nullptr, reporter()));
  }

  void check_step(const StepId& step) {
    const RolloutData* of = rollout(step.rollout);
    for (const auto& [rank, unit] : event_units(record_.dump(), "train", step.group())) {
      check_unit(step, unit, of);
    }
  }

  void check_unit(const StepId& step, const format::UnitReader& unit, const RolloutData* of) {
    const StepEvents events =
        read_events(record_.dump(), unit, step.group(), step.rollout, step.step);
    check_ranks(events, format::rank_of(unit.record().path));
    const bool columns = unit.find(step.group() + "/sample_id") != nullptr;
    const TrainData data = columns ? data_of(step, unit, events) : TrainData{};
    std::optional<std::vector<engine::SampleShape>> shapes;
    if (of != nullptr && columns) shapes = shapes_of(*of, data.sample_id);
    GroupCheck check(model_, parameters_, pool_, events);
    note(check.run(shapes ? &*shapes : nullptr, columns_of(data, of),
                   data.scalars ? &*data.scalars : nullptr, reporter()));
  }

  /// The samples whose rows the events have: the rank's, or, where it has only slices of them or
  /// not all, the whole step's.
  TrainData data_of(const StepId& step, const format::UnitReader& unit,
                    const StepEvents& events) const {
    TrainData own = read_train_data(record_.dump(), unit, step.group());
    const std::unordered_set<uint64_t> ids(own.sample_id.begin(), own.sample_id.end());
    const auto is_own = [&](const engine::RowRun& run) { return ids.contains(run.sample); };
    const bool all_own = std::ranges::all_of(
        events.row_sets, [&](const RowSet& rows) { return std::ranges::all_of(rows, is_own); });
    if (all_own && !own.slices) return own;
    format::HeldBytes held;
    return format::read_whole_train(record_.dump(), step.group(), held);
  }

  /// Of a step, a unit holds the tensors of its rank; of a rollout, of any rank.
  void check_ranks(const StepEvents& events, std::optional<int64_t> rank) {
    const int64_t ranks = format::ranks_of(record_.dump().meta());
    for (const EventRecord& r : events.events) {
      const auto said = static_cast<uint32_t>(r.rank);
      if (rank ? said == *rank : said < ranks) continue;
      return add("event", "events/rank",
                 "says rank " + std::to_string(said) + ", and " +
                     (rank ? "the unit is of rank " + std::to_string(*rank)
                           : "the run has " + std::to_string(ranks) + " ranks"));
    }
  }

  const RecordedRun& record_;
  const ModelConfig model_;
  ParameterTable parameters_;
  ThreadPool& pool_;
  RecordProblems problems_;
  std::vector<std::string> not_checked_;
  std::string where_;
  int64_t loaded_ = -1;
  std::optional<RolloutData> data_;
};

bool holds_events(const format::DumpReader& dump) {
  return std::ranges::any_of(dump.units(), [&](const format::UnitRecord& record) {
    const format::UnitReader unit = dump.open_unit(record);
    return std::ranges::any_of(record.groups,
                               [&](const std::string& group) { return has_events(unit, group); });
  });
}

}  // namespace

RecordFindings check_events(const RecordedRun& record, ThreadPool& pool) {
  const auto config = record.find_config();
  if (config) return RunCheck(record, config->model, pool).run();
  if (!holds_events(record.dump())) return {};
  return {{}, {"events: the dump names no model that this version knows"}};
}

}  // namespace rlreplay::replay

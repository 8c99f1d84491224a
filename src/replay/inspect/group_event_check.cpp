#include "src/replay/inspect/group_event_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "kernels/order.h"
#include "src/base/dtype.h"
#include "src/base/same_value.h"
#include "src/base/words.h"
#include "src/events/name.h"
#include "src/events/recording_sink.h"

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

/// The values of a column at rows; nothing where the group lacks it, or a row is of no sample.
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

/// Judges the events of one group: form first, since nothing of a wrong form can be digested, then
/// sums, values, columns and scalars. An event that this program's table lacks is counted, and
/// judged in none of these.
class GroupCheck {
 public:
  GroupCheck(const StepEvents& events, const ModelConfig& model, const ParameterTable& parameters,
             ThreadPool& pool, const EventReport& report)
      : model_(model), parameters_(parameters), events_(events), pool_(pool), report_(report) {}

  std::vector<std::string> run(const std::vector<engine::SampleShape>* shapes,
                               const std::vector<NamedColumn>& columns,
                               const format::NamedColumns* scalars) {
    for (const EventRecord& r : events_.events) {
      if (const std::string what = form(r, shapes); !what.empty()) {
        report_(to_string(r.event), what);
        sound_ = false;
      }
    }
    if (!sound_) return {};  // nothing can be digested under other names and shapes
    for (const EventRecord& r : events_.events) {
      if (is_named(r.event)) continue;
      if (const std::string what = sums(r); !what.empty()) report_(to_string(r.event), what);
    }
    check_values();
    check_columns(columns);
    if (scalars != nullptr) check_scalars(*scalars);
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

  void check_values() const {
    for (const EventRecord& r : events_.events) {
      if (r.values.empty() || is_named(r.event)) continue;
      const EventRecord found = digested(r, r.values);
      if (!found.same_value(r)) {
        report_(to_string(r.event), "its values do not have its digest");
      } else if (r.stats && found.stats != r.stats) {
        report_(to_string(r.event), "its statistics are not those of its values");
      } else if (!r.row_digests.empty() && found.row_digests != r.row_digests) {
        report_(to_string(r.event), "its rows' digests are not those of its values");
      }
    }
  }

  void check_columns(const std::vector<NamedColumn>& columns) {
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
        report_(column.dataset, "not what " + event + " digested");
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
    return load_as<float>(bytes.data() + row * sizeof(float));
  }

  void check_scalars(const format::NamedColumns& scalars) const {
    for (const NamedScalar& scalar : kScalars) {
      const EventRecord* r = events_.find(engine::parse_event(scalar.event));
      const auto value = scalars.find(scalar.name);
      if (r == nullptr || !value) continue;
      std::vector<std::byte> bytes;
      const auto narrow = static_cast<float>(*value);
      r->dtype == DType::kF32 ? append(bytes, narrow) : append(bytes, *value);
      const bool exact = r->dtype != DType::kF32 || same_value(*value, double{narrow});
      if (exact && digested(*r, bytes).same_value(*r)) continue;
      report_(std::string("scalars/") + scalar.name,
              std::string("not what the event ") + scalar.event + " digested");
    }
  }

  const ModelConfig& model_;
  const ParameterTable& parameters_;
  const StepEvents& events_;
  ThreadPool& pool_;
  const EventReport& report_;
  bool sound_ = true;
  std::vector<std::string> not_checked_;
  mutable size_t named_ = 0;  // events of other tables than ours
};

}  // namespace

std::vector<std::string> check_group_events(const GroupEvents& group, const ModelConfig& model,
                                            const ParameterTable& parameters, ThreadPool& pool,
                                            const EventReport& report) {
  const TrainData* train = group.train;
  return GroupCheck(group.events, model, parameters, pool, report)
      .run(group.shapes, train ? columns_of(*train, group.rollout) : columns_of(*group.rollout),
           train && train->scalars ? &*train->scalars : nullptr);
}

}  // namespace rlreplay::replay

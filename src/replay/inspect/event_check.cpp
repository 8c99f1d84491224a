#include "src/replay/inspect/event_check.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "format/group_name.h"
#include "format/held_bytes.h"
#include "format/record.h"
#include "format/rule.h"
#include "format/train_ranks.h"
#include "format/unit_counts.h"
#include "src/base/error.h"
#include "src/base/words.h"
#include "src/events/name.h"
#include "src/replay/inspect/group_event_check.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/event_units.h"
#include "src/replay/record/recorded_step.h"

namespace rlreplay::replay {
namespace {

using engine::EventRecord;
using engine::RowSet;
using engine::StepEvents;
using format::RolloutData;
using format::TrainData;

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

/// Events of every rollout and step against samples, columns and model. where_ is what findings
/// name; the data of the last rollout stays loaded for its steps.
class RunCheck {
 public:
  /// Without a `model` tables are held to themselves and to the samples alone.
  RunCheck(const RecordedRun& record, const UnreadRollouts& unread,
           std::optional<ModelConfig> model, ThreadPool& pool)
      : record_(record), unread_(unread), model_(std::move(model)), pool_(pool) {
    if (model_) parameters_ = make_parameters(*model_);
  }

  RecordFindings run() {
    for (const int64_t id : record_.rollouts()) {
      if (unread_.contains(id)) continue;
      where_ = "rollout/" + std::to_string(id);
      guarded([&] { check_rollout(id); });
    }
    for (const StepId& step : record_.steps()) {
      if (unread_.contains(step.rollout)) continue;
      where_ = "train/" + step.group();
      guarded([&] { check_step(step); });
    }
    return {std::move(problems_).take(), std::move(not_checked_)};
  }

 private:
  /// Adds what `work` throws, where it would end a replay, to the problems; other errors go on.
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

  void check(const GroupEvents& group) {
    check_finite(group.events);
    if (!model_) {
      return group.train ? check_rows(group.events, *group.train)
                         : check_rows(group.events, *group.rollout);
    }
    const auto report = [this](const std::string& dataset, const std::string& message) {
      add("event", dataset, message);
    };
    for (const std::string& what : check_group_events(group, *model_, parameters_, pool_, report)) {
      not_checked_.push_back(where_ + ": " + what);
    }
  }

  /// Sees that of values that were kept as many are not finite as is said. Those that digests of
  /// ours are of, the digest tells.
  void check_finite(const StepEvents& events) {
    for (const EventRecord& r : events.events) {
      if (r.values.empty() || (model_ && !is_named(r.event))) continue;
      const uint64_t found = format::count_nonfinite(r.dtype, r.values);
      const auto said = static_cast<uint64_t>(r.nonfinite.count);
      if (found == said || size_of(r.dtype) == 1) continue;  // of eight bits nobody counts them
      add("event", to_string(r.event),
          counted(found, "element") + " of its values are not finite, and events/nonfinite says " +
              std::to_string(said));
    }
  }

  /// Sees that the rows of tables are tokens of samples that are there.
  template <class Data>
  void check_rows(const StepEvents& events, const Data& data) {
    if (data.size() == 0) return;  // of samples that nobody recorded
    std::unordered_map<uint64_t, uint64_t> lengths;
    for (size_t s = 0; s < data.size(); ++s) {
      lengths.emplace(data.sample_id[s], data.offsets[s + 1] - data.offsets[s]);
    }
    for (const RowSet& rows : events.row_sets) {
      for (const engine::RowRun& run : rows) {
        const auto at = lengths.find(run.sample);
        const auto end = static_cast<uint64_t>(run.position + run.count);
        if (at != lengths.end() && end <= at->second) continue;
        return add("event", "events/run_sample",
                   at == lengths.end()
                       ? "has rows of sample " + std::to_string(run.sample) + ", which is not there"
                       : "has rows of tokens to " + std::to_string(end) + " of sample " +
                             std::to_string(run.sample) + ", which has " +
                             std::to_string(at->second));
      }
    }
  }

  const RolloutData* rollout(int64_t id) {
    if (loaded_ != id) data_ = find_rollout_data(record_.dump(), id);
    loaded_ = id;
    return data_ ? &*data_ : nullptr;
  }

  void check_rollout(int64_t id) {
    const RolloutData* data = rollout(id);
    if (data == nullptr) return;
    const std::string group = std::to_string(id);
    const auto shapes = shapes_of(*data, data->sample_id);
    for (const auto& [rank, unit] : event_units(record_.dump(), "rollout", group)) {
      const StepEvents events = read_events(record_.dump(), unit, group, id, 0);
      if (events.events.empty()) continue;
      if (model_) check_ranks(events, std::nullopt);
      check({events, &shapes, data, nullptr});
    }
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
    if (model_) check_ranks(events, format::rank_of(unit.record().path));
    const bool columns = unit.find(step.group() + "/sample_id") != nullptr;
    const TrainData data = columns  ? data_of(step, unit, events)
                           : model_ ? TrainData{}
                                    : whole(step);
    std::optional<std::vector<engine::SampleShape>> shapes;
    if (of != nullptr && columns) shapes = shapes_of(*of, data.sample_id);
    check({events, shapes ? &*shapes : nullptr, of, &data});
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
    return all_own && !own.slices ? own : whole(step);
  }

  TrainData whole(const StepId& step) const {
    format::HeldBytes held;
    return format::read_whole_train(record_.dump(), step.group(), held);
  }

  /// Adds a problem where an event is not of `rank`, the unit's; without one, as of a rollout,
  /// where it is of no rank of the run.
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
  const UnreadRollouts& unread_;
  const std::optional<ModelConfig> model_;
  ParameterTable parameters_;
  ThreadPool& pool_;
  RecordProblems problems_;
  std::vector<std::string> not_checked_;
  std::string where_;
  int64_t loaded_ = -1;
  std::optional<RolloutData> data_;
};

/// Whether there are events of rollouts that can be read.
bool holds_events(const format::DumpReader& dump, const UnreadRollouts& unread) {
  return std::ranges::any_of(dump.units(), [&](const format::UnitRecord& record) {
    std::vector<std::string> read = record.groups;
    std::erase_if(read, [&](const std::string& group) {
      const auto name = format::GroupName::parse(group);
      return !name || unread.contains(name->rollout);
    });
    if (read.empty()) return false;
    const format::UnitReader unit = dump.open_unit(record);
    return std::ranges::any_of(read,
                               [&](const std::string& group) { return has_events(unit, group); });
  });
}

}  // namespace

RecordFindings check_events(const RecordedRun& record, const UnreadRollouts& unread,
                            ThreadPool& pool) {
  const auto config = record.find_config();
  if (config) return RunCheck(record, unread, config->model, pool).run();
  RecordFindings found = RunCheck(record, unread, std::nullopt, pool).run();
  if (holds_events(record.dump(), unread)) {
    found.not_checked.push_back("events: the dump names no model that this version knows");
  }
  return found;
}

}  // namespace rlreplay::replay

#include "src/replay/inspect/lacking_columns.h"

#include <algorithm>
#include <set>
#include <span>

#include "format/train_ranks.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

/// Notes those samples, of which `counts` is true, that lack a column of which others have values.
template <class Counts, class Has>
void note_lacking(const std::string& column, std::span<const uint64_t> samples, Counts counts,
                  Has has, std::vector<std::string>& notes) {
  size_t lack = 0, count = 0;
  uint64_t first = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!counts(i)) continue;
    ++count;
    if (!has(i) && ++lack == 1) first = samples[i];
  }
  if (lack == 0 || lack == count) return;
  const size_t others = count - lack;
  notes.push_back(column + ": sample " + std::to_string(first) +
                  (lack > 1 ? " and " + std::to_string(lack - 1) + " more have" : " has") +
                  " none, " + counted(others, "other") + (others == 1 ? " has" : " have"));
}

/// Samples of which a step repeats the sampler's log-probabilities, or those of others: a check of
/// its own judges them.
std::set<uint64_t> judged_log_probs(const RecordedRollout& rollout) {
  std::set<uint64_t> out;
  for (const RecordedStep& step : rollout.steps) {
    if (std::ranges::none_of(step.fields, &RecordedFields::own_rollout_log_probs)) continue;
    for (const Sample& s : step.samples) out.insert(s.id);
  }
  return out;
}

/// Samples without a response, of which columns of responses and rewards say nothing.
std::set<uint64_t> without_response(std::span<const Sample> samples) {
  std::set<uint64_t> out;
  for (const Sample& s : samples) {
    if (s.loss_mask.empty()) out.insert(s.id);
  }
  return out;
}

/// Notes of a column of `data`, where it may be of some samples alone. `judged`: samples that have
/// it or of which another check says that they do not.
template <class Data, class Column>
void note_column(const Data& data, std::string_view name, const Column& column,
                 const std::set<uint64_t>& no_response, bool of_response, const std::string& of,
                 const std::set<uint64_t>& judged, std::vector<std::string>& notes) {
  if constexpr (requires { column->presence; }) {
    if (!column) return;
    const auto counts = [&](size_t row) {
      return !of_response || !no_response.contains(data.sample_id[row]);
    };
    const auto has = [&](size_t row) {
      return format::is_present(column->presence, row) || judged.contains(data.sample_id[row]);
    };
    note_lacking(std::string(name) + of, data.sample_id, counts, has, notes);
  }
}

bool is_of_response(std::string_view name, format::Axis axis) {
  return axis == format::Axis::kResponse || name == "rewards";
}

void note_generated(const RecordedRollout& rollout, bool of_framework,
                    std::vector<std::string>& notes) {
  if (!rollout.data) return;
  const std::set<uint64_t> no_response = without_response(rollout.samples);
  const std::set<uint64_t> judged = judged_log_probs(rollout);
  format::for_each_rollout_column([&](std::string_view name, auto member, format::Axis axis) {
    const bool log_probs = name == "log_probs";
    if (of_framework && !log_probs && name != "rewards") return;
    note_column(*rollout.data, name, (*rollout.data).*member, no_response,
                is_of_response(name, axis), " of rollout " + std::to_string(rollout.id),
                log_probs ? judged : std::set<uint64_t>(), notes);
  });
}

void note_trained(const RecordedRun& run, const RecordedStep& step, bool judges_log_probs,
                  std::vector<std::string>& notes) {
  format::HeldBytes held;
  const format::TrainData data = read_whole_train(run.dump(), step.id.group(), held);
  const std::set<uint64_t> no_response = without_response(step.samples);
  format::for_each_train_column([&](std::string_view name, auto member, format::Axis axis) {
    if (judges_log_probs && name == "rollout_log_probs") return;
    note_column(data, name, data.*member, no_response, is_of_response(name, axis),
                " of step " + step.id.name(), {}, notes);
  });
}

}  // namespace

std::vector<std::string> lacking_columns(const RecordedRun& run, const RecordedRollout& rollout,
                                         bool of_framework, bool joins) {
  std::vector<std::string> notes;
  note_generated(rollout, of_framework, notes);
  const bool judges_log_probs = rollout.data && rollout.data->log_probs;
  for (const RecordedStep& step : rollout.steps) {
    if (step.trained && !of_framework && joins) note_trained(run, step, judges_log_probs, notes);
  }
  return notes;
}

}  // namespace rlreplay::replay

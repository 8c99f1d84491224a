#include "src/replay/rerun/beside_values.h"

#include <algorithm>
#include <map>

#include "format/held_bytes.h"
#include "format/train_ranks.h"
#include "src/events/name.h"
#include "src/replay/compare/event_difference.h"

namespace rlreplay::replay {
namespace {

/// The numbers of a column at the tokens of prompts. `prompt`: tokens of it, of a row.
template <class Data, class Values, class Prompt>
void add_column(const Data& data, std::string_view name, const Values& column, const Prompt& prompt,
                StepValues& to) {
  StepValueDifference found{.name = std::string(name).append(kOfPrompts)};
  for (size_t s = 0; s < data.size(); ++s) {
    if (!column.has(s)) continue;
    const uint64_t begin = data.offsets[s];
    const uint64_t end = std::min(begin + prompt(s), data.offsets[s + 1]);
    for (uint64_t t = begin; t < end; ++t) {
      double record = 0;
      if constexpr (requires { column.at(t); }) {
        record = column.at(t);
      } else {
        record = static_cast<double>(column.values[t]);
      }
      found.take(record, 0, data.sample_id[s], static_cast<int64_t>(t - begin));
    }
  }
  to.add(std::move(found));
}

}  // namespace

std::string Layouts::text() const {
  return "the replay is of the layout " + to_string(replay) + ", the record of " +
         to_string(record) + ", whose ranks sum in another order";
}

void add_prompt_values(const RecordedRun& run, const StepId& step, std::span<const Sample> samples,
                       StepValues& to) {
  std::map<uint64_t, uint64_t> prompts;  // their tokens, by sample
  for (const Sample& s : samples) prompts[s.id] = static_cast<uint64_t>(s.prompt_length);
  format::HeldBytes held;
  for (const format::TrainRank& rank : format::read_train_ranks(run.dump(), step.group(), held)) {
    const format::TrainData& data = rank.data;
    const auto prompt = [&](size_t s) -> uint64_t {
      const auto at = prompts.find(data.sample_id[s]);
      return at == prompts.end() ? 0 : at->second;
    };
    if (data.loss_mask) add_column(data, "loss_mask", *data.loss_mask, prompt, to);
    for (const format::TokenColumnField& field : format::kTokenColumnFields) {
      const auto& column = data.*field.column;
      if (column) add_column(data, field.name, *column, prompt, to);
    }
  }
}

void add_prompt_values(const format::RolloutData& data, StepValues& to) {
  if (!data.prompt_length) return;
  const auto prompt = [&](size_t s) -> uint64_t { return (*data.prompt_length)[s]; };
  if (data.loss_mask) add_column(data, "loss_mask", *data.loss_mask, prompt, to);
  if (data.log_probs) add_column(data, "log_probs", *data.log_probs, prompt, to);
}

void add_versions(const format::RolloutData& data, int64_t steps, StepValues& to) {
  if (!data.versions) return;
  const format::Versions& all = *data.versions;
  StepValueDifference counts{.name = "version_counts"}, versions{.name = "versions"};
  StepValueDifference starts{.name = "version_starts"};
  for (size_t s = 0; s < data.size(); ++s) {
    const uint64_t first = all.offsets[s], count = all.offsets[s + 1] - first;
    counts.take(static_cast<double>(count), 1, data.sample_id[s], {});
    for (uint64_t v = first; v < first + count; ++v) {
      versions.take(static_cast<double>(all.versions[v]), static_cast<double>(steps),
                    data.sample_id[s], {});
    }
    if (count == 0 || !all.starts || !data.prompt_length) continue;
    starts.take((*all.starts)[first], (*data.prompt_length)[s], data.sample_id[s], {});
  }
  to.add(std::move(counts));
  to.add(std::move(versions));
  to.add(std::move(starts));
}

void add_finishes(const format::RolloutData& data, const std::vector<bool>& stopped,
                  StepValues& to) {
  if (!data.finish) return;
  StepValueDifference found{.name = "finish"};
  for (size_t s = 0; s < std::min(data.size(), stopped.size()); ++s) {
    const auto replay = stopped[s] ? format::Finish::kStop : format::Finish::kLength;
    found.take(static_cast<double>((*data.finish)[s]), static_cast<double>(replay),
               data.sample_id[s], {});
  }
  to.add(std::move(found));
}

void add_statistics(const engine::StepEvents& record, const engine::StepEvents& replay,
                    const Layouts& layouts, StepValues& to) {
  if (layouts.record != layouts.replay) {
    const bool any = std::ranges::any_of(
        record.events, [](const engine::EventRecord& event) { return event.stats.has_value(); });
    if (any) to.statistics_skipped = layouts.text();
    return;
  }
  constexpr double engine::Stats::*kNumbers[] = {&engine::Stats::min, &engine::Stats::max,
                                                 &engine::Stats::mean, &engine::Stats::rms};
  for (const auto& [in_record, in_replay] : paired_events(record, replay)) {
    if (in_record == nullptr || in_replay == nullptr) continue;
    if (!in_record->stats || !in_replay->stats || !in_record->same_value(*in_replay)) continue;
    StepValueDifference found{.name = "statistics of " + engine::to_string(in_record->event)};
    for (const auto number : kNumbers) {
      found.take(*in_record->stats.*number, *in_replay->stats.*number, {}, {});
    }
    to.add(std::move(found));
  }
}

}  // namespace rlreplay::replay

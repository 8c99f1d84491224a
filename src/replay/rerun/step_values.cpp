#include "src/replay/rerun/step_values.h"

#include <algorithm>
#include <functional>

#include "format/train_data.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/printable.h"
#include "src/base/same_value.h"
#include "src/replay/capture/sample_data.h"

namespace rlreplay::replay {

void StepValueDifference::take(double in_record, double in_replay,
                               std::optional<uint64_t> of_sample, std::optional<int64_t> of_token) {
  ++compared;
  if (same_value(in_record, in_replay) || different++ > 0) return;
  sample = of_sample;
  token = of_token;
  record = in_record;
  replay = in_replay;
}

void StepValues::add(StepValueDifference numbers) {
  compared += numbers.compared;
  if (numbers.different > 0) different.push_back(std::move(numbers));
}

namespace {

/// Which weights wrote, numbers of prompts, how responses ended, then columns, causes before
/// effects; scalars come behind them.
size_t place_of(const StepValueDifference& of) {
  constexpr std::string_view kVersions[] = {"version_counts", "versions", "version_starts"};
  constexpr std::string_view kPrompt[] = {"prompt_text", "label_text", "group_id"};
  const auto is_one_of = [&](const auto& names) {
    return std::ranges::find(names, of.name) != std::end(names);
  };
  if (is_one_of(kVersions)) return 0;
  if (of.name.ends_with(kOfPrompts) || is_one_of(kPrompt)) return 1;
  if (of.name == "finish" || of.name == "response_text") return 2;
  size_t place = 3, found = 0;
  format::for_each_train_column([&](std::string_view name, auto, format::Axis) {
    if (name == of.name) found = place;
    ++place;
  });
  return found != 0 ? found : place;
}

/// What a replay has of a column, by sample; null where it computes no such numbers.
using Replayed = std::function<const std::vector<float>*(size_t)>;

struct Column {
  std::string_view name;
  TokenColumn RecordedStep::*recorded;
  Replayed replayed;
};

/// Adds what differs to `out`; in_order() sorts it.
class Comparison {
 public:
  Comparison(const RecordedStep& record, std::span<const Sample> samples)
      : record_(record), samples_(samples) {}

  void masks() {
    StepValueDifference values{.name = "loss_mask"};
    for (size_t i = 0; i < samples_.size(); ++i) {
      if (!record_.fields[i].own_mask) continue;  // the replay has the rollout's
      const auto &a = record_.samples[i].loss_mask, &b = samples_[i].loss_mask;
      for (size_t t = 0; t < a.size(); ++t) values.take(a[t], b[t], samples_[i].id, place(i, t));
    }
    out.add(std::move(values));
  }

  void column(const Column& of) {
    const TokenColumn& recorded = record_.*of.recorded;
    if (!recorded) return;
    StepValueDifference values{.name = std::string(of.name)};
    bool any = of.recorded == &RecordedStep::rollout_log_probs;  // else the rollout's own
    for (size_t i = 0; i < samples_.size(); ++i) {
      const std::vector<double>& a = (*recorded)[i];
      const std::vector<float>* b = of.replayed(i);
      if (a.empty() || b == nullptr || b->size() != a.size()) continue;
      any = true;
      for (size_t t = 0; t < a.size(); ++t) {
        values.take(a[t], static_cast<double>((*b)[t]), samples_[i].id, place(i, t));
      }
    }
    if (!any) out.not_compared.emplace_back(of.name);
    out.add(std::move(values));
  }

  void rewards(const std::vector<double>& replayed) {
    if (!record_.shaped) return;
    if (replayed.empty()) out.not_compared.emplace_back("rewards");
    StepValueDifference values{.name = "rewards"};
    for (size_t i = 0; i < replayed.size(); ++i) {
      values.take((*record_.shaped)[i], replayed[i], samples_[i].id, std::nullopt);
    }
    out.add(std::move(values));
  }

  void scalars(const format::NamedColumns& replayed) {
    const format::NamedColumns& recorded = record_.scalars.agreed;
    for (size_t i = 0; i < recorded.names.size(); ++i) {
      const std::string& name = recorded.names[i];
      const auto replay = replayed.find(name);
      if (!replay) {
        out.not_compared.push_back(name);
        continue;
      }
      StepValueDifference values{.name = name};
      values.take(recorded.values[i], *replay, std::nullopt, std::nullopt);
      out.add(std::move(values));
    }
    for (const auto& of : record_.scalars.differing) out.not_compared.push_back(of.text());
  }

  StepValues out;

 private:
  int64_t place(size_t sample, size_t t) const {
    return samples_[sample].prompt_length + static_cast<int64_t>(t);
  }

  const RecordedStep& record_;
  const std::span<const Sample> samples_;
};

}  // namespace

void StepValues::in_order() { std::ranges::stable_sort(different, {}, place_of); }

RecordedScalars recorded_scalars(const RecordedStep& step) {
  return {step.scalar("loss"), step.scalar("grad_norm"), step.scalar("lr")};
}

StepValues compare_values(const RecordedStep& record, const StepOutcome& outcome,
                          std::span<const Sample> samples, std::span<const SampleTargets> targets,
                          std::span<const std::string_view> taken) {
  const auto& scores = outcome.result.scores;
  const Column columns[] = {
      {"rollout_log_probs", &RecordedStep::rollout_log_probs,
       [&](size_t i) {
         return record.fields[i].own_rollout_log_probs ? &samples[i].rollout_log_probs : nullptr;
       }},
      {"ref_log_probs", &RecordedStep::ref_log_probs,
       [&](size_t i) { return &targets[i].ref_log_probs; }},
      {"old_log_probs", &RecordedStep::old_log_probs,
       [&](size_t i) { return &targets[i].old_log_probs; }},
      {"advantages", &RecordedStep::advantages, [&](size_t i) { return &targets[i].advantages; }},
      {"log_probs", &RecordedStep::log_probs, [&](size_t i) { return &scores[i].log_probs; }},
      {"entropy", &RecordedStep::entropy, [&](size_t i) { return &scores[i].entropy; }},
  };
  Comparison comparison(record, samples);
  comparison.masks();
  comparison.rewards(outcome.shaped_rewards);
  for (const Column& column : columns) {
    const bool own = std::ranges::find(taken, column.name) != taken.end();
    if (own) {
      comparison.out.taken.emplace_back(column.name);
    } else {
      comparison.column(column);
    }
  }
  for (const StepColumn& column : step_columns()) {
    const bool known = std::ranges::find(columns, column.name, &Column::name) != std::end(columns);
    if (!known && record.*column.column) {
      comparison.out.not_compared.emplace_back(column.name);
    }
  }
  comparison.scalars(step_scalars(outcome));
  return std::move(comparison.out);
}

std::string values_json(const StepValues& values) {
  return json_list(values.different, [](const StepValueDifference& d) {
    JsonLine line;
    line.text("name", d.name);
    d.sample ? line.json("sample", std::to_string(*d.sample)) : line.null("sample");
    d.token ? line.integer("token", *d.token) : line.null("token");
    line.bits("record", d.record).bits("replay", d.replay);
    line.integer("compared", d.compared).integer("different", d.different);
    if (d.texts) line.text("record_text", d.texts->first).text("replay_text", d.texts->second);
    return line.str();
  });
}

namespace {

/// Two texts from a little before where they part.
std::pair<std::string, std::string> parted(const std::pair<std::string, std::string>& texts) {
  constexpr size_t kBefore = 24;
  const auto [a, b] = std::ranges::mismatch(texts.first, texts.second);
  auto begin = static_cast<size_t>(a - texts.first.begin());
  begin = begin <= 2 * kBefore ? 0 : begin - kBefore;
  while (begin > 0 && (static_cast<uint8_t>(texts.first[begin]) & 0xC0) == 0x80) --begin;
  const std::string cut = begin > 0 ? "..." : "";
  return {cut + printable(texts.first.substr(begin)), cut + printable(texts.second.substr(begin))};
}

}  // namespace

std::string values_text(const StepValues& values, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(most, values.different.size()); ++i) {
    const StepValueDifference& d = values.different[i];
    std::string line = "  " + d.name;
    line.resize(std::max<size_t>(line.size() + 1, 18), ' ');
    const auto [record, replay] =
        d.texts ? parted(*d.texts) : std::pair(shortest_of(d.record), shortest_of(d.replay));
    line += record + " recorded, " + replay + " replayed";
    if (d.sample) {
      line += ": sample " + std::to_string(*d.sample);
      if (d.token) line += ", token " + std::to_string(*d.token);
    }
    if (d.compared > 1) {
      line += " (" + std::to_string(d.different) + " of " + std::to_string(d.compared) + ")";
    }
    out += line + "\n";
  }
  if (values.different.size() > most) {
    out += "  and " + std::to_string(values.different.size() - most) + " more\n";
  }
  return out;
}

}  // namespace rlreplay::replay

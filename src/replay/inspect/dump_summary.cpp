#include "src/replay/inspect/dump_summary.h"

#include <algorithm>
#include <set>

#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::RolloutData;
using format::TrainData;
using format::UnitRecord;

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

}  // namespace

std::vector<RolloutSummary> summarize_rollouts(const DumpReader& dump) {
  std::vector<RolloutSummary> made;
  for (const UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) == "rollout") add_samples(dump, record, made);
  }
  std::sort(made.begin(), made.end(), [](const auto& a, const auto& b) {
    return std::pair(a.id.size(), a.id) < std::pair(b.id.size(), b.id);
  });
  return made;
}

std::vector<RolloutSummary> summarize_evaluations(const DumpReader& dump) {
  std::vector<RolloutSummary> made;
  for (const UnitRecord& record : dump.units()) {
    const std::string name = record.path.substr(record.path.rfind('/') + 1);
    if (record.path.starts_with("x-") && name.starts_with("eval_")) {
      add_samples(dump, record, made);
    }
  }
  return made;
}

std::vector<StepSummary> summarize_steps(const DumpReader& dump) {
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

}  // namespace rlreplay::replay

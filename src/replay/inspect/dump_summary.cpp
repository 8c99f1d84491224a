#include "src/replay/inspect/dump_summary.h"

#include <algorithm>
#include <set>

#include "format/group_counts.h"
#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/error.h"
#include "src/replay/exchange/kept_file.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::GroupCounts;
using format::IndexedGroup;
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
    std::set<uint64_t> seen;
    for (size_t s = 0; s < data.size(); ++s) {
      if (data.group_id->has(s)) seen.insert(data.group_id->values[s]);
    }
    made.groups = seen.size();
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

void for_each_group(const DumpReader& dump, const std::function<void(const IndexedGroup&)>& use) {
  const format::UnitIndex& index = dump.units().index();
  for (size_t number = 0; number < index.group_count(); ++number) use(index.indexed_group(number));
}

std::string place_of_counts(const IndexedGroup& group) {
  return std::string(group.path) + ": counts of " + std::string(group.name);
}

/// A count that there must be.
template <class Count>
const Count& needed(const std::optional<Count>& count, const char* name,
                    const IndexedGroup& group) {
  if (count) return *count;
  throw Error(ErrorCode::kCorrupt, std::string("the key \"") + name + "\" is missing",
              place_of_counts(group));
}

/// The unit of a group whose record does not count it, opened once for all of its groups.
class OpenedUnit {
 public:
  explicit OpenedUnit(const DumpReader& dump) : dump_(dump) {}

  const format::UnitReader& of(const IndexedGroup& group) {
    const UnitRecord& record = dump_.units()[group.row];
    if (!unit_ || unit_->record().path != record.path) unit_.emplace(dump_.open_unit(record));
    return *unit_;
  }

 private:
  const DumpReader& dump_;
  std::optional<format::UnitReader> unit_;
};

/// What a record counts of a group; nothing where its writer did not count.
std::optional<GroupCounts> counts_of(const IndexedGroup& group) {
  if (group.counts.empty()) return std::nullopt;
  return format::parse_counts(group.counts, place_of_counts(group));
}

/// The numbers of a group with samples, as its record counts them.
RolloutSummary counted_rollout(const GroupCounts& counts, const IndexedGroup& group) {
  const auto counted = [&](const std::optional<uint64_t>& number, const char* name) {
    return needed(number, name, group);
  };
  RolloutSummary made;
  made.id = group.name;
  made.samples = counted(counts.samples, "samples");
  made.tokens = counted(counts.tokens, "tokens");
  made.response_tokens = counted(counts.response_tokens, "response_tokens");
  made.longest = counted(counts.longest_response, "longest_response");
  made.masked = counted(counts.masked_tokens, "masked_tokens");
  made.groups = counts.groups;
  made.reward = counts.reward_mean;
  made.log_prob = counts.log_prob_mean;
  made.finish = counts.finish;
  made.versions = counts.versions;
  return made;
}

/// The groups that `wanted` is true of, in the order of their units; those without samples apart.
std::vector<RolloutSummary> summarize_samples(const DumpReader& dump,
                                              bool (*wanted)(const IndexedGroup&)) {
  std::vector<RolloutSummary> made;
  OpenedUnit opened(dump);
  for_each_group(dump, [&](const IndexedGroup& group) {
    if (!wanted(group)) return;
    const auto counts = counts_of(group);
    if (counts && counts->samples) return made.push_back(counted_rollout(*counts, group));
    const std::string name(group.name);
    const format::UnitReader& unit = opened.of(group);
    if (unit.find(name + "/tokens") == nullptr) return;
    made.push_back(summarize(read_rollout_data(dump, unit, name), name));
  });
  return made;
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

/// The numbers of a rank's step, as its record counts them.
StepSummary counted_step(const GroupCounts& counts, const IndexedGroup& group) {
  StepSummary made;
  made.id = group.name;
  made.rank = format::rank_of(group.path);
  made.events = needed(counts.events, "events", group);
  const auto columns = needed(counts.columns, "columns", group);
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    if (std::ranges::find(columns, field.name) != columns.end()) {
      made.columns.emplace_back(field.name);
    }
  }
  if (!counts.samples) return made;
  made.samples = *counts.samples;
  made.tokens = needed(counts.tokens, "tokens", group);
  if (counts.scalars) made.scalars = *counts.scalars;
  return made;
}

bool is_rollout(const IndexedGroup& group) { return group.kind() == "rollout"; }

bool is_evaluation(const IndexedGroup& group) { return keeps_evaluation(group.path); }

}  // namespace

std::vector<RolloutSummary> summarize_rollouts(const DumpReader& dump) {
  auto made = summarize_samples(dump, is_rollout);
  std::sort(made.begin(), made.end(), [](const auto& a, const auto& b) {
    return std::pair(a.id.size(), a.id) < std::pair(b.id.size(), b.id);
  });
  return made;
}

std::vector<RolloutSummary> summarize_evaluations(const DumpReader& dump) {
  return summarize_samples(dump, is_evaluation);
}

void for_each_step(const DumpReader& dump, const std::function<void(const StepSummary&)>& use) {
  OpenedUnit opened(dump);
  for_each_group(dump, [&](const IndexedGroup& group) {
    if (group.kind() != "train") return;
    if (const auto counts = counts_of(group)) return use(counted_step(*counts, group));
    use(summarize(dump, dump.units()[group.row], opened.of(group), std::string(group.name)));
  });
}

}  // namespace rlreplay::replay

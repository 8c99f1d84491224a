#include "src/replay/exchange/selection.h"

#include "format/partial_read.h"
#include "src/replay/record/chosen_ids.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;

std::optional<uint64_t> group_of(const RolloutData& data, size_t s) {
  if (!data.group_id || !data.group_id->has(s)) return std::nullopt;
  return data.group_id->values[s];
}

std::set<uint64_t> selected_samples(const RolloutData& data, const Selection& selection) {
  std::set<uint64_t> groups = selection.groups.value_or(std::set<uint64_t>());
  std::set<uint64_t> chosen;
  for (size_t s = 0; s < data.size(); ++s) {
    if (!selection.samples || !selection.samples->contains(data.sample_id[s])) continue;
    chosen.insert(data.sample_id[s]);
    if (const auto group = group_of(data, s)) groups.insert(*group);
  }
  for (size_t s = 0; s < data.size(); ++s) {
    const auto group = group_of(data, s);
    if (group && groups.contains(*group)) chosen.insert(data.sample_id[s]);
  }
  return chosen;
}

}  // namespace

std::optional<ChosenSamples> choose_samples(const format::DumpReader& dump,
                                            const Selection& selection, const std::string& name) {
  if (selection.is_all()) return std::nullopt;
  ChosenSamples chosen;
  std::set<uint64_t> samples, groups;
  for (const format::UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) != "rollout") continue;
    const format::UnitReader unit = dump.open_unit(record);
    for (const std::string& rollout : record.groups) {
      if (holds_events_alone(unit, rollout)) continue;
      const RolloutData data = read_rollout_data(
          dump, unit, rollout,
          {"log_probs", "nucleus", "loss_mask", "prompt_text", "response_text", "label_text"});
      samples.insert(data.sample_id.begin(), data.sample_id.end());
      for (size_t s = 0; s < data.size(); ++s) {
        if (const auto group = group_of(data, s)) groups.insert(*group);
      }
      const std::set<uint64_t> ids = selected_samples(data, selection);
      if (!ids.empty()) chosen[rollout].insert(ids.begin(), ids.end());
    }
  }
  check_chosen("sample", selection.samples.value_or(std::set<uint64_t>()), samples, name);
  check_chosen("group", selection.groups.value_or(std::set<uint64_t>()), groups, name);
  return chosen;
}

}  // namespace rlreplay::replay

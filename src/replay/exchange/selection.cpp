#include "src/replay/exchange/selection.h"

#include <utility>
#include <vector>

#include "format/group_io.h"
#include "format/partial_read.h"
#include "src/replay/record/chosen_ids.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;

std::optional<uint64_t> group_of(const RolloutData& data, size_t s) {
  if (!data.group_id || !data.group_id->has(s)) return std::nullopt;
  return data.group_id->values[s];
}

/// Samples of a rollout that are chosen together: those of a group, and of a trajectory.
class Together {
 public:
  enum class Kind { kGroup, kTrajectory };

  void add(uint64_t sample, Kind kind, uint64_t id) {
    members_[{kind, id}].push_back(sample);
    shared_[sample].push_back({kind, id});
  }

  void add(const std::vector<uint64_t>& samples, Kind kind, const format::Column<uint64_t>& ids) {
    for (size_t s = 0; s < samples.size(); ++s) {
      if (ids.has(s)) add(samples[s], kind, ids.values[s]);
    }
  }

  /// The given samples and all that these bring along, directly or by others.
  std::set<uint64_t> with_others(const std::vector<uint64_t>& samples) const {
    std::set<uint64_t> out(samples.begin(), samples.end());
    std::vector<uint64_t> open = samples;
    while (!open.empty()) {
      const auto of = shared_.find(open.back());
      open.pop_back();
      if (of == shared_.end()) continue;
      for (const Shared& shared : of->second) {
        for (const uint64_t other : members_.at(shared)) {
          if (out.insert(other).second) open.push_back(other);
        }
      }
    }
    return out;
  }

 private:
  using Shared = std::pair<Kind, uint64_t>;
  std::map<Shared, std::vector<uint64_t>> members_;
  std::map<uint64_t, std::vector<Shared>> shared_;  // by sample
};

/// Trajectories as a step names them, which its rollout may not.
void add_trajectories(const format::DumpReader& dump, const format::UnitReader& unit,
                      const std::string& step, Together& to) {
  format::GroupReader fields(dump, unit, step);
  if (fields.find("sample_id") == nullptr || fields.find("trajectory_id") == nullptr) return;
  const auto samples = fields.read<uint64_t>(*fields.find("sample_id"));
  std::optional<format::Column<uint64_t>> ids;
  fields.set_extents({samples.size(), 0});
  fields.take("trajectory_id", ids, samples.size());
  to.add(samples, Together::Kind::kTrajectory, *ids);
}

std::set<uint64_t> selected_samples(const format::DumpReader& dump, const std::string& rollout,
                                    const RolloutData& data, const Selection& selection) {
  std::vector<uint64_t> chosen;
  for (size_t s = 0; s < data.size(); ++s) {
    const auto group = group_of(data, s);
    const bool wanted = selection.samples && selection.samples->contains(data.sample_id[s]);
    const bool of_group = group && selection.groups && selection.groups->contains(*group);
    if (wanted || of_group) chosen.push_back(data.sample_id[s]);
  }
  if (chosen.empty()) return {};
  Together together;
  if (data.group_id) together.add(data.sample_id, Together::Kind::kGroup, *data.group_id);
  if (data.trajectory_id)
    together.add(data.sample_id, Together::Kind::kTrajectory, *data.trajectory_id);
  for (const format::UnitRecord& record : dump.units()) {
    if (format::kind_of(record.path) != "train") continue;
    for (const std::string& step : record.groups) {
      if (!step.starts_with(rollout + "-")) continue;
      add_trajectories(dump, dump.open_unit(record), step, together);
    }
  }
  return together.with_others(chosen);
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
      const std::set<uint64_t> ids = selected_samples(dump, rollout, data, selection);
      if (!ids.empty()) chosen[rollout].insert(ids.begin(), ids.end());
    }
  }
  check_chosen("sample", selection.samples.value_or(std::set<uint64_t>()), samples, name);
  check_chosen("group", selection.groups.value_or(std::set<uint64_t>()), groups, name);
  return chosen;
}

}  // namespace rlreplay::replay

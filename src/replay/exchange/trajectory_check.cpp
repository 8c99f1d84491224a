#include "src/replay/exchange/trajectory_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/base/number_text.h"
#include "src/replay/exchange/train_schedule.h"

namespace rlreplay::replay {
namespace {

using foreign::TrainShard;

struct Member {
  const TrainShard* shard = nullptr;
  size_t row = 0;
  int64_t sample = 0;
  double masked = 0;          // its tokens that count
  std::optional<double> sum;  // of its trajectory's, as the trainer counted
};

Member member_of(const TrainShard& shard, size_t row) {
  Member out{&shard, row, shard.indices()[row], 0, shard.number(row, "rollout_mask_sums")};
  const auto mask = shard.cell(row, "loss_masks");
  for (size_t i = 0; mask && i < mask->size(); ++i) out.masked += mask->real(i) != 0 ? 1 : 0;
  if (!mask) out.masked = static_cast<double>(shard.length(row, "response_lengths"));
  return out;
}

/// The samples by the trajectory that they name, each once, as its file and row. What names
/// something else than a number goes to `problems`.
using Rows = std::vector<std::pair<const TrainShard*, size_t>>;
std::map<int64_t, Rows> by_trajectory(std::span<const TrainShard> shards,
                                      std::vector<foreign::Problem>& problems) {
  std::map<int64_t, Rows> out;
  std::set<int64_t> seen;
  for (const TrainShard& shard : shards) {
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      const int64_t sample = shard.indices()[row];
      if (!seen.insert(sample).second) continue;
      const auto id = shard.whole_number(row, "rollout_ids");
      const auto said = id ? std::nullopt : shard.number(row, "rollout_ids");
      if (said) {
        problems.push_back({"schedule-mismatch",
                            "rollout_ids of sample " + std::to_string(sample) + " is " +
                                shortest_of(*said) + ", which is no whole number",
                            shard.place(row)});
        continue;
      }
      out[id.value_or(sample)].emplace_back(&shard, row);
    }
  }
  return out;
}

std::vector<Member> members_of(const Rows& rows) {
  std::vector<Member> out;
  for (const auto& [shard, row] : rows) out.push_back(member_of(*shard, row));
  return out;
}

double masked_of(const std::vector<Member>& members) {
  double all = 0;
  for (const Member& member : members) all += member.masked;
  return all;
}

/// The one that is most likely the trajectory's: of its own number, as frameworks count.
const Member& owner_of(const std::vector<Member>& members, int64_t id) {
  const auto own = std::ranges::find_if(members, [&](const Member& m) { return m.sample == id; });
  return own == members.end() ? members.front() : *own;
}

std::string sum_text(const Member& member) {
  return member.sum ? shortest_of(*member.sum) : "None";
}

/// Numbers by step.
using ByStep = std::map<int64_t, std::set<int64_t>>;

/// What the files of a rollout hold of each step.
struct StepCounts {
  ByStep trajectories, samples;
  std::map<std::pair<int64_t, int64_t>, ByStep> by_rank;  // samples, by their list and rank in it
  int64_t trajectory_places = 0;                          // of all steps
  bool scheduled = true;  // the files say which samples are of which step

  /// Whether the sizes are numbers of samples, of all ranks or of each of them.
  [[nodiscard]] bool count_otherwise(std::span<const int64_t> sizes) const;
};

/// How many there are in each of the steps.
std::vector<int64_t> of_steps(const ByStep& held, size_t steps) {
  std::vector<int64_t> out;
  for (size_t step = 0; step < steps; ++step) {
    const auto at = held.find(static_cast<int64_t>(step));
    out.push_back(at == held.end() ? 0 : std::ssize(at->second));
  }
  return out;
}

bool StepCounts::count_otherwise(std::span<const int64_t> sizes) const {
  const auto fits = [&](const ByStep& held) {
    return std::ranges::equal(of_steps(held, sizes.size()), sizes);
  };
  return fits(samples) ||
         std::ranges::all_of(by_rank, [&](const auto& of) { return fits(of.second); });
}

/// Of files that say no schedule all samples are of the one step, where there is one; nothing where
/// there are several, and of a selection of samples, exported, which is divided by the numbers of
/// all. Errors: kCorrupt.
std::optional<StepCounts> count_steps(std::span<const foreign::TorchFile* const> files,
                                      size_t count) {
  StepCounts out;
  std::map<std::vector<int64_t>, int64_t> lists;  // of samples: replicas have the same
  for (const foreign::TorchFile* file : files) {
    if (file->tree().find(file->root(), "rlreplay") != nullptr) return std::nullopt;
    const auto steps = read_schedule(*file);
    if (!steps && count != 1) return std::nullopt;
    out.scheduled = out.scheduled && steps;
    const TrainShard shard(*file);
    const int64_t list = lists.emplace(shard.indices(), std::ssize(lists)).first->second;
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      const int64_t sample = shard.indices()[row];
      int64_t step = 0;
      if (steps) {
        const auto at = steps->find(sample);
        if (at == steps->end()) return std::nullopt;
        step = at->second;
      }
      const int64_t id = shard.whole_number(row, "rollout_ids").value_or(sample);
      out.trajectory_places += out.trajectories[step].insert(id).second ? 1 : 0;
      out.samples[step].insert(sample);
      const int64_t rank = shard.whole_number(row, "data_parallel_rank").value_or(0);
      out.by_rank[{list, rank}][step].insert(sample);
    }
  }
  return out;
}

}  // namespace

TrajectoryCheck check_trajectories(std::span<const TrainShard> shards,
                                   std::span<const int64_t> batch_sizes) {
  TrajectoryCheck out;
  constexpr int64_t kMostTaken = int64_t{1} << 52;
  for (const int64_t size : batch_sizes) {
    out.taken = std::min(kMostTaken, out.taken + std::clamp<int64_t>(size, 0, kMostTaken));
  }
  const auto trajectories = by_trajectory(shards, out.problems);
  out.named = static_cast<int64_t>(trajectories.size());
  for (const auto& [id, rows] : trajectories) {
    if (out.missing() <= 0) break;
    if (rows.size() < 2) continue;
    const std::vector<Member> members = members_of(rows);
    const double all = masked_of(members);
    const auto counts_less = [&](const Member& member) { return member.sum && *member.sum < all; };
    if (std::ranges::none_of(members, counts_less)) continue;
    const Member& owner = owner_of(members, id);
    for (const Member& member : members) {
      if (&member == &owner || (members.size() > 2 && member.sum == owner.sum)) continue;
      out.problems.push_back(
          {"schedule-mismatch",
           "rollout_ids of sample " + std::to_string(member.sample) + " is " + std::to_string(id) +
               ", as that of sample " + std::to_string(owner.sample) +
               ", but rollout_mask_sums of the one is " + sum_text(member) + ", of the other " +
               sum_text(owner) + ", and their masks together have " + shortest_of(all) +
               ": the steps took " + std::to_string(out.taken) +
               " trajectories, the samples name " + std::to_string(out.named),
           member.shard->place(member.row)});
    }
  }
  return out;
}

std::vector<foreign::Problem> check_sizes_of_all(std::span<const TrainShard> shards,
                                                 const TrajectoryCheck& found,
                                                 std::optional<size_t> generated) {
  std::set<int64_t> samples;
  for (const TrainShard& shard : shards) {
    samples.insert(shard.indices().begin(), shard.indices().end());
  }
  if (found.missing() <= 0 || !generated || samples.size() < *generated) return {};
  return {{"schedule-mismatch",
           "the steps took " + std::to_string(found.taken) + " trajectories, and the rollout has " +
               std::to_string(found.named) +
               ", which are all there: the sizes of batches are of others",
           shards.front().path()}};
}

std::vector<foreign::Problem> check_step_sizes(std::span<const foreign::TorchFile* const> files,
                                               std::span<const int64_t> sizes,
                                               const TrajectoryCheck& found) {
  if (found.taken == 0 || found.missing() > 0 || !found.problems.empty()) return {};
  const std::optional<StepCounts> held = count_steps(files, sizes.size());
  if (!held || held->trajectory_places != found.named) return {};  // some are of two steps
  const std::vector<int64_t> there = of_steps(held->trajectories, sizes.size());
  const auto fits = std::ranges::mismatch(there, sizes);
  if (fits.in1 == there.end()) return {};
  // Of none that fits another thing was counted: samples, or those of each rank.
  bool any = false;
  for (size_t step = 0; step < sizes.size(); ++step) any = any || there[step] == sizes[step];
  if (!any && held->count_otherwise(sizes)) return {};
  const auto odd = static_cast<size_t>(fits.in1 - there.begin());
  return {{"schedule-mismatch",
           "the size of batch " + std::to_string(odd) + " is " + std::to_string(sizes[odd]) +
               (held->scheduled ? ", its micro-batches hold " : ", the files hold ") +
               (there[odd] == 1 ? "1 trajectory" : std::to_string(there[odd]) + " trajectories"),
           files.front()->path()}};
}

}  // namespace rlreplay::replay

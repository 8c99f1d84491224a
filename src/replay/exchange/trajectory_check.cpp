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

std::vector<foreign::Problem> check_step_sizes(std::span<const foreign::TorchFile* const> files,
                                               const TrajectoryCheck& found) {
  if (found.taken == 0 || found.missing() > 0 || !found.problems.empty()) return {};
  std::map<int64_t, std::set<int64_t>> held;  // trajectories, by step
  size_t count = 0;                           // of all steps
  for (const foreign::TorchFile* file : files) {
    // A selection of samples, exported, is divided by the numbers of all.
    if (file->tree().find(file->root(), "rlreplay") != nullptr) return {};
    const auto steps = read_schedule(*file);
    if (!steps) return {};
    const TrainShard shard(*file);
    for (size_t row = 0; row < shard.indices().size(); ++row) {
      const int64_t sample = shard.indices()[row];
      const auto step = steps->find(sample);
      if (step == steps->end()) return {};
      const int64_t id = shard.whole_number(row, "rollout_ids").value_or(sample);
      count += held[step->second].insert(id).second ? 1 : 0;
    }
  }
  if (static_cast<int64_t>(count) != found.named) return {};  // some are of two steps
  const std::vector<int64_t> sizes = read_batch_sizes(files);
  std::optional<size_t> odd;  // the first that does not fit
  size_t fit = 0;
  for (size_t step = 0; step < sizes.size(); ++step) {
    const bool fits = std::cmp_equal(held[static_cast<int64_t>(step)].size(), sizes[step]);
    fit += fits ? 1 : 0;
    if (!fits && !odd) odd = step;
  }
  if (!odd || fit == 0) return {};  // of none that fits another thing was counted
  const size_t there = held[static_cast<int64_t>(*odd)].size();
  return {{"schedule-mismatch",
           "the size of batch " + std::to_string(*odd) + " is " + std::to_string(sizes[*odd]) +
               ", its micro-batches hold " +
               (there == 1 ? "1 trajectory" : std::to_string(there) + " trajectories"),
           files.front()->path()}};
}

}  // namespace rlreplay::replay

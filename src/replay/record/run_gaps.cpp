#include "src/replay/record/run_gaps.h"

#include <algorithm>
#include <optional>

#include "src/base/words.h"

namespace rlreplay::replay {

using foreign::Problem;

namespace {

/// "rollout 3", "rollouts 3, 4, 5", of many the first few.
std::string named_rollouts(const std::vector<int64_t>& rollouts) {
  constexpr size_t kMost = 8;
  std::vector<std::string> first;
  for (size_t i = 0; i < std::min(rollouts.size(), kMost); ++i) {
    first.push_back(std::to_string(rollouts[i]));
  }
  return (rollouts.size() == 1 ? "rollout " : "rollouts ") + joined(first, ", ") +
         (rollouts.size() > kMost ? ", ..." : "");
}

}  // namespace

std::vector<Problem> check_rollouts(const std::set<int64_t>& generated,
                                    const std::set<int64_t>& trained) {
  std::vector<Problem> problems;
  if (generated.empty() || trained.empty()) return problems;  // recorded without the other
  const auto add = [&](const char* code, int64_t rollout, const char* message) {
    problems.push_back({code, message, "rollout " + std::to_string(rollout)});
  };
  for (const int64_t rollout : generated) {
    if (rollout > *trained.rbegin() || trained.contains(rollout)) continue;
    add("step-missing", rollout, "its steps are not there, and those of a later rollout are");
  }
  for (const int64_t rollout : trained) {
    if (generated.contains(rollout)) continue;
    add("sample-unknown", rollout,
        "there are steps of it, and its samples are not there, as those of other rollouts are");
  }
  return problems;
}

std::vector<Problem> find_unheld(const std::set<int64_t>& generated,
                                 const std::set<int64_t>& trained) {
  std::vector<Problem> out;
  if (generated.empty() && !trained.empty()) {
    out.push_back({"rollouts-absent", "there are no samples to hold the training against",
                   named_rollouts({trained.begin(), trained.end()})});
  }
  const int64_t last = trained.empty() ? -1 : *trained.rbegin();
  const std::vector<int64_t> behind(generated.upper_bound(last), generated.end());
  if (!behind.empty()) {
    out.push_back({"rollout-untrained",
                   "there is no training to hold the samples against (files may be missing, or the "
                   "run ended)",
                   named_rollouts(behind)});
  }
  return out;
}

std::vector<Problem> find_rollout_gaps(const std::set<int64_t>& generated,
                                       const std::set<int64_t>& trained) {
  std::set<int64_t> there = generated;
  there.insert(trained.begin(), trained.end());
  constexpr size_t kMost = 9;  // one more than are named
  std::vector<int64_t> gone;
  std::optional<int64_t> before;
  for (const int64_t rollout : there) {
    for (int64_t id = before ? *before + 1 : rollout; id < rollout && gone.size() < kMost; ++id) {
      gone.push_back(id);
    }
    before = rollout;
  }
  if (gone.empty()) return {};
  return {{"rollouts-between",
           "neither samples nor steps are there, as they are of rollouts before and after (files "
           "may be missing, or the run did not dump them)",
           named_rollouts(gone)}};
}

std::vector<uint64_t> kept_samples(const format::RolloutData& data) {
  std::vector<uint64_t> out;
  for (size_t s = 0; s < data.size(); ++s) {
    const bool removed = data.removed && data.removed->has(s) && data.removed->values[s] != 0;
    if (!removed) out.push_back(data.sample_id[s]);
  }
  return out;
}

std::string untrained_samples(int64_t rollout, const std::vector<uint64_t>& kept,
                              std::vector<uint64_t> trained) {
  std::ranges::sort(trained);
  constexpr size_t kMost = 8;
  std::string list;
  size_t count = 0;
  for (const uint64_t id : kept) {
    if (std::ranges::binary_search(trained, id) || ++count > kMost) continue;
    list += (list.empty() ? "" : ", ") + std::to_string(id);
  }
  if (count == 0) return "";
  return counted(count, "sample") + " of rollout " + std::to_string(rollout) +
         " that no step has: " + list + (count > kMost ? ", ..." : "") +
         " (a rank's file may be missing, or the trainer left them out)";
}

std::vector<Problem> find_step_gaps(const std::map<int64_t, std::set<int64_t>>& steps) {
  std::vector<Problem> problems;
  for (const auto& [rollout, there] : steps) {
    const auto span =
        static_cast<uint64_t>(*there.rbegin()) - static_cast<uint64_t>(*there.begin());
    const uint64_t missing = span + 1 - there.size();
    if (missing == 0) continue;
    problems.push_back({"step-missing",
                        counted(missing, "step") + (missing == 1 ? " is" : " are") +
                            " missing between the first and the last",
                        "rollout " + std::to_string(rollout)});
  }
  return problems;
}

}  // namespace rlreplay::replay

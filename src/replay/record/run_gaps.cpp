#include "src/replay/record/run_gaps.h"

#include <string>

#include "src/base/words.h"

namespace rlreplay::replay {

using foreign::Problem;

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

std::vector<Problem> check_steps(const std::map<int64_t, std::set<int64_t>>& steps) {
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

#include "src/replay/inspect/run_check.h"

#include <string>

namespace rlreplay::replay {

std::vector<foreign::Problem> check_run(const std::set<int64_t>& generated,
                                        const std::set<int64_t>& trained) {
  std::vector<foreign::Problem> problems;
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

}  // namespace rlreplay::replay

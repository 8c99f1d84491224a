#include "src/replay/rerun/step_gap.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "format/record.h"
#include "format/unit.h"
#include "src/base/error.h"
#include "src/replay/record/missing_ranks.h"

namespace rlreplay::replay {
namespace {

/// ", for of it these ranks hold no part: 1"; empty where no rank holds any.
std::string lost_parts(const RecordedRun& record, const StepId& step) {
  std::set<int64_t> there;
  for (const format::UnitRecord* unit : record.dump().find("train", step.group())) {
    there.insert(format::rank_of(unit->path));
  }
  if (there.empty()) return {};
  return " whole (these ranks hold no part of it: " +
         missing_ranks(there, format::ranks_of(record.dump().meta())) + ")";
}

}  // namespace

void check_no_gap(const RecordedRun& record, size_t first, size_t last) {
  const std::vector<StepId>& steps = record.steps();
  const int64_t in_rollout = steps_per_rollout(record.config().options);
  const auto place = [&](const StepId& step) { return step.rollout * in_rollout + step.step; };
  for (size_t i = first + 1; i <= last; ++i) {
    const int64_t next = place(steps[i - 1]) + 1;
    if (place(steps[i]) == next) continue;
    const StepId missing{next / in_rollout, next % in_rollout};
    throw Error(ErrorCode::kIncomplete,
                "the dump does not hold step " + missing.name() + lost_parts(record, missing) +
                    ", behind which no step can be taken: give --steps " + steps[first].name() +
                    ".." + steps[i - 1].name(),
                record.path());
  }
}

void check_trained(const RecordedRun& record, int64_t rollout) {
  const RunOptions options = record.config().options;
  const int64_t in_rollout = options.rollout_only ? 0 : steps_per_rollout(options);
  for (int64_t step = 0; step < in_rollout; ++step) {
    const StepId id{rollout, step};
    if (std::ranges::binary_search(record.steps(), id)) continue;
    throw Error(ErrorCode::kIncomplete,
                "the dump does not hold step " + id.name() + lost_parts(record, id) +
                    ", behind which no rollout can be generated but from a state that was kept "
                    "(capture --weights all)",
                record.path());
  }
}

}  // namespace rlreplay::replay

#include "src/bisect/drill_down.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/bisect/recorded_steps.h"

namespace rlreplay::bisect {
using replay::RecordedRun;
using replay::StepId;

namespace {

engine::StepEvents read_step(const RecordedRun& dump, const StepId& step) {
  engine::StepEvents events = events_of(dump, step);
  if (events.events.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "step " + step.name() +
                    " holds no events to compare: record with --record steps, "
                    "tensors or ops",
                dump.path());
  }
  return events;
}

std::string describe_beyond(const RecordedRun& a, const RecordedRun& b, size_t common) {
  if (a.steps() == b.steps()) return {};
  const bool is_a = a.steps().size() > common;
  const StepId& step = is_a ? a.steps()[common] : b.steps()[common];
  return std::string(is_a ? "the first" : "the second") + " dump has step " + step.name() +
         ", which the other one lacks";
}

}  // namespace

DumpDifference compare_dumps(const std::string& path_a, const std::string& path_b) {
  const RecordedRun a = open_whole(path_a), b = open_whole(path_b);
  const auto apart =
      std::mismatch(a.steps().begin(), a.steps().end(), b.steps().begin(), b.steps().end());
  const auto common = static_cast<size_t>(apart.first - a.steps().begin());
  DumpDifference result;
  // The state before a step needs no comparison: the step before was identical.
  for (size_t i = 0; i < common; ++i) {
    const StepId& step = a.steps()[i];
    result.step = replay::compare_steps(read_step(a, step), read_step(b, step));
    ++result.compared;
    if (!result.step.identical()) return result;
  }
  result.beyond = describe_beyond(a, b, common);
  return result;
}

}  // namespace rlreplay::bisect

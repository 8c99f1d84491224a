#include "src/bisect/drill_down.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/bisect/recorded_steps.h"

namespace rlreplay::bisect {
namespace {

engine::StepEvents read_step(const RecordedSteps& dump, const std::string& path,
                             const StepId& step) {
  engine::StepEvents events = dump.events(step);
  if (events.events.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "step " + step.name() +
                    " holds no events to compare: record with --record steps, "
                    "tensors or ops",
                path);
  }
  return events;
}

std::string describe_beyond(const RecordedSteps& a, const RecordedSteps& b, size_t common) {
  if (a.steps() == b.steps()) return {};
  const bool is_a = a.steps().size() > common;
  const StepId& step = is_a ? a.steps()[common] : b.steps()[common];
  return std::string(is_a ? "the first" : "the second") + " dump has step " + step.name() +
         ", which the other one lacks";
}

}  // namespace

DumpDifference compare_dumps(const std::string& path_a, const std::string& path_b) {
  const RecordedSteps a(path_a), b(path_b);
  const auto apart =
      std::mismatch(a.steps().begin(), a.steps().end(), b.steps().begin(), b.steps().end());
  const auto common = static_cast<size_t>(apart.first - a.steps().begin());
  DumpDifference result;
  // The state before a step needs no comparison: the step before was identical.
  for (size_t i = 0; i < common; ++i) {
    const StepId& step = a.steps()[i];
    result.step = replay::compare_steps(read_step(a, path_a, step), read_step(b, path_b, step));
    ++result.compared;
    if (!result.step.identical()) return result;
  }
  result.beyond = describe_beyond(a, b, common);
  return result;
}

}  // namespace rlreplay::bisect

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
  engine::StepEvents last_a, last_b;
  for (size_t i = 0; i < common; ++i) {
    engine::StepEvents now_a = read_step(a, path_a, a.steps()[i]);
    engine::StepEvents now_b = read_step(b, path_b, b.steps()[i]);
    const replay::StateBefore before{i == 0 ? nullptr : &last_a, i == 0 ? nullptr : &last_b};
    result.step = replay::compare_steps(now_a, now_b, before);
    ++result.compared;
    if (!result.step.identical()) return result;
    last_a = std::move(now_a);
    last_b = std::move(now_b);
  }
  result.beyond = describe_beyond(a, b, common);
  return result;
}

}  // namespace rlreplay::bisect

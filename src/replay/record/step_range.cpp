#include "src/replay/record/step_range.h"

#include <algorithm>

#include "format/group_name.h"
#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/replay/record/imported_samples.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {
namespace {

[[noreturn]] void refuse_steps(const std::string& text) {
  throw Error(
      ErrorCode::kUsage,
      "--steps takes A..B, each a step as 3.0 or a count from 0, B included, not \"" + text + "\"");
}

/// The place of a step among those of the record.
int64_t place_of(std::string_view text, std::span<const StepId> steps, const std::string& whole) {
  if (const auto count = parse_number<int64_t>(text); count && *count >= 0) return *count;
  const auto step = parse_step(text);
  if (!step) refuse_steps(whole);
  const auto found = std::ranges::find(steps, *step);
  if (found == steps.end()) {
    throw Error(ErrorCode::kUsage, "--steps: the dump has no step " + step->name());
  }
  return found - steps.begin();
}

}  // namespace

bool StepRange::holds_of(int64_t rollout, std::span<const StepId> steps) const {
  const auto from = std::ranges::lower_bound(steps, rollout, {}, &StepId::rollout);
  const auto to = std::ranges::upper_bound(steps, rollout, {}, &StepId::rollout);
  const int64_t begin = from - steps.begin(), end = to - steps.begin();
  return begin < end && begin <= last && first < end;
}

StepRange parse_steps(const std::string& text, std::span<const StepId> steps) {
  if (text.empty()) return {};
  const size_t dots = text.find("..");
  if (dots == text.npos) {
    const int64_t place = place_of(text, steps, text);
    return {place, place};
  }
  StepRange out;
  out.first = place_of(std::string_view(text).substr(0, dots), steps, text);
  const std::string_view end = std::string_view(text).substr(dots + 2);
  if (!end.empty()) out.last = place_of(end, steps, text);
  if (out.last < out.first) {
    throw Error(ErrorCode::kUsage,
                "--steps " + text + " ends before it begins: give A..B in order");
  }
  return out;
}

void check_steps(const StepRange& range, size_t steps, const std::string& path) {
  const auto count = static_cast<int64_t>(steps);
  if (range.first < count && (range.last < count || range.last == INT64_MAX)) return;
  throw Error(ErrorCode::kUsage,
              "--steps: the dump has " + std::to_string(count) + (count == 1 ? " step" : " steps") +
                  ", counted from 0: the last is " + std::to_string(count - 1),
              path);
}

bool RunPart::holds_group(std::string_view kind, const std::string& group) const {
  if (kind == "rollout" || kind == kInputsKind) {
    const auto id = format::parse_rollout(group);
    return id && first.rollout <= *id && *id <= last.rollout;
  }
  const auto step = kind == "train" || kind == "weights" ? parse_step(group) : std::nullopt;
  return step && holds(*step);
}

RunPart parse_part(const std::string& part, std::span<const StepId> steps) {
  if (part.empty()) return {};
  const size_t dots = part.find("..");
  const auto first = parse_step(std::string_view(part).substr(0, dots));
  const std::string_view end =
      dots == part.npos ? std::string_view() : std::string_view(part).substr(dots + 2);
  const auto last = parse_step(end);
  if (!first || dots == part.npos || (!last && !end.empty())) {
    throw Error(ErrorCode::kCorrupt, "part is two steps, as 1.0..2.0, not \"" + part + "\"",
                "meta");
  }
  if (last) return {*first, *last};
  return {*first, steps.empty() ? *first : *std::ranges::max_element(steps)};
}

}  // namespace rlreplay::replay

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/step_id.h"

namespace rlreplay::replay {

/// Optimizer steps of a run, counted from 0.
struct StepRange {
  int64_t first = 0;
  int64_t last = INT64_MAX;  // included

  [[nodiscard]] bool holds(int64_t place) const { return first <= place && place <= last; }
  /// Whether it holds a step of a rollout; `steps`: those of the run, sorted.
  [[nodiscard]] bool holds_of(int64_t rollout, std::span<const StepId> steps) const;
};

/// `a..b`, `a..` or `a`, each a count from 0 or one of the record's steps, `3.0`; all of them for
/// an empty text. Errors: kUsage.
[[nodiscard]] StepRange parse_steps(const std::string& text, std::span<const StepId> steps);

/// Sees that a run of so many steps has those of the range. Errors: kUsage.
void check_steps(const StepRange& range, size_t steps, const std::string& path);

/// Steps of a run, both ends included.
struct RunPart {
  StepId first{0, 0}, last{INT64_MAX, 0};

  [[nodiscard]] bool holds(const StepId& step) const { return first <= step && step <= last; }
  /// "1.0..2.0", as parse_part reads it.
  [[nodiscard]] std::string text() const { return first.name() + ".." + last.name(); }
  /// Whether a group of a unit of this kind is of them: a rollout, a step, a state.
  [[nodiscard]] bool holds_group(std::string_view kind, const std::string& group) const;
};

/// Reads of which steps a dump is: `part` as dump_meta has it; all of the run where it is empty.
/// "1.0.." goes as far as the dump's own `steps` do. Errors: kCorrupt.
[[nodiscard]] RunPart parse_part(const std::string& part, std::span<const StepId> steps);

}  // namespace rlreplay::replay

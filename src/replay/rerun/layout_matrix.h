#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/layout.h"
#include "src/engine/element_ranks.h"
#include "src/replay/rerun/replay.h"
#include "src/replay/run/machine.h"

namespace rlreplay::replay {

/// The layouts that `text` names: "all" of up to `ranks` ranks that the model goes into, one rank
/// first, or a list, "dp=2;tp=2,cp=2". Errors: kUsage, and kUnsupported for one that does not fit.
[[nodiscard]] std::vector<Layout> layouts_to_try(const std::string& text, const ModelConfig& model,
                                                 int64_t ranks);

/// Where a layout's numbers first differ, and whose they are.
struct LayoutDifference {
  engine::EventNumbers numbers;
  bool per_token = false;
  std::vector<int> ranks;                    // that computed them
  std::vector<engine::RankGroup> exchanged;  // what they are computed from
  std::string note;                          // where the element is not known: why

  /// "sample 3, token 5, column 7"; empty where nothing of it is known.
  std::string place() const;
};

/// A recorded step, taken again in a layout.
struct LayoutVerdict {
  Layout layout;
  ReplayedStep step;
  std::optional<LayoutDifference> difference = {};  // of events, where copies agree

  /// The first event or recorded number that differs; empty where none does.
  std::string first_difference() const;
  /// For people: the element, and the ranks that computed it; empty where that is not known.
  std::string whose() const;
};

/// Errors: kIncomplete where the record has no state before the step.
void check_has_state(const RecordedRun& record, const StepId& step);

/// Takes one recorded step, of those that `range` is of, from its recorded state in each layout,
/// and tells each verdict as it comes. Returns whether all are identical. Errors: kIncomplete where
/// the record has no state before the step.
[[nodiscard]] bool try_layouts(const RecordedRun& record, const RunOptions& options, int64_t step,
                               std::span<const Layout> layouts, Machine& machine,
                               const std::function<void(const LayoutVerdict&)>& report);

}  // namespace rlreplay::replay

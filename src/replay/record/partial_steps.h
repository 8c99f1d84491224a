#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/unit_index.h"
#include "src/base/step_id.h"

namespace rlreplay::replay {

/// The ranks of the units that hold a group, without those that hold parts of it alone.
[[nodiscard]] std::set<int64_t> ranks_that_hold(std::span<const format::IndexedGroup> holders);

/// A step that a dump holds of some of its ranks alone: no reader takes it for one that is there.
struct PartialStep {
  StepId step;
  std::string missing;  // ranks, as missing_ranks says them
};

/// Those of a dump whose writers have not all ended, in order.
[[nodiscard]] std::vector<PartialStep> partial_steps(const format::DumpReader& dump);

/// Of each a sentence for whoever judges values: those of no such step are.
[[nodiscard]] std::vector<std::string> partial_notes(const format::DumpReader& dump);

/// "step 3.0 is left out: of step 3.0 these ranks hold no part: 1"; empty without one.
[[nodiscard]] std::string left_out_text(const format::DumpReader& dump);

}  // namespace rlreplay::replay

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "src/base/layout.h"
#include "src/engine/backend.h"
#include "src/replay/record/recorded_run.h"

/// Weights, moments and counters before a step, into a dump and back into a model.
namespace rlreplay::replay {

/// Bytes of a state's unit, so that whoever reads one needs no more memory.
inline constexpr uint64_t kStateUnitBytes = uint64_t{1} << 30;

using UseStateUnit = std::function<void(std::string path, std::vector<format::Dataset> datasets)>;

/// What rank `rank` of the layout writes of the state that the backend holds: units of at most
/// `unit_bytes` (but a row of a tensor is never cut), one after the other, of which each holds
/// tensors of the group, or boxes of them, which own their values. The last one of rank 3 is
/// `rank3.h5`, and has the counters, so that a state whose writer died before it is known to be
/// none (RecordedRun::has_state); those before it are `rank3-part0.h5`, `rank3-part1.h5`, ...
void each_state_unit(engine::Backend& backend, const std::string& group, const Layout& layout,
                     int rank, uint64_t unit_bytes, const UseStateUnit& use);

/// The recorded state before a step. Errors: those of StateReader.
void read_state(const RecordedRun& run, const StepId& step, engine::Backend& backend);

}  // namespace rlreplay::replay

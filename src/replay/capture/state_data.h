#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/dataset.h"
#include "src/base/layout.h"
#include "src/engine/backend.h"
#include "src/replay/record/recorded_run.h"

/// Weights, moments and counters before a step, into a dump and back into a model.
namespace rlreplay::replay {

/// What a rank of the layout writes of the state, as datasets of the group, which own their values:
/// whole tensors, or boxes of them.
std::vector<format::Dataset> state_datasets(engine::Backend& backend, const std::string& group,
                                            const Layout& layout, int rank);

/// Of the states that a run keeps, one in so many is stored in full. More would be read for each
/// state that a replay begins with, fewer take more space (docs/measurements.md).
inline constexpr int64_t kFullStateEvery = 8;

/// Makes each state the difference to the one before it.
class StateChain {
 public:
  /// `number`: which of the states that the run keeps this is, so that the same ones are full after
  /// a capture was resumed.
  void link(const std::string& unit, int64_t number, std::vector<format::Dataset>& state);

 private:
  std::string unit_;
  std::vector<format::Dataset> last_;
};

/// The recorded state before a step. Errors: those of StateReader.
void read_state(const RecordedRun& run, const StepId& step, engine::Backend& backend);

}  // namespace rlreplay::replay

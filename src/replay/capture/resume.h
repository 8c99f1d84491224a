#pragma once

#include <string>

#include "src/replay/options/options.h"
#include "src/replay/record/recorded_run.h"
#include "src/replay/run/run.h"

namespace rlreplay::replay {

/// Sees that a resumed capture is asked for what was recorded.
/// Errors: kUsage, naming the first option of a resumed capture that is not the recorded one,
/// unless it changes no bits.
void check_resumed_options(const RunOptions& recorded, const RunOptions& asked);

/// Loads the last recorded state from which all that the record lacks can be reached, else the
/// model's own, and returns where the run goes on, by `record`, which must outlive that.
/// Errors: kUsage where model or prompts are not those of the record.
[[nodiscard]] RunStart resume_run(const RecordedRun& record, const RunOptions& options,
                                  const RunTask& task, Trainer& trainer);

}  // namespace rlreplay::replay

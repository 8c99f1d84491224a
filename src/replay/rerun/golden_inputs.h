#pragma once

#include "src/base/golden_file.h"
#include "src/replay/options/options.h"

namespace rlreplay::replay {

/// Hashes of the files that a run of these options is given: `model` and `tokenizer` of its
/// checkpoint, `reference`, `prompts`, and `reward`, the files that the words of a reward command
/// name. The demo's own need none.
/// Errors: kEnvironment where one cannot be read.
[[nodiscard]] GoldenEntries golden_inputs(const RunOptions& options);

}  // namespace rlreplay::replay

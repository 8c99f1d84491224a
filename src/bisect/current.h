#pragma once

#include <optional>
#include <string>

#include "src/base/interrupt.h"
#include "src/bisect/runner.h"
#include "src/replay/measure/judgement.h"

namespace rlreplay::bisect {

using measure::Criterion;
using measure::Judgement;
using measure::Measurement;

/// The current checkout, to be built and run where it lies, and what it is compared with.
struct CurrentQuestion {
  Recipe recipe;
  Criterion criterion;
  std::optional<std::string> reference;  // what `read_recorded` reads
};

/// Errors: kInterrupted, kIncomplete and kUsage for the reference, those of a run.
[[nodiscard]] Judgement judge_current(const CurrentQuestion& question, const Interrupt& interrupt);

/// Compares what two runs left, without running anything.
[[nodiscard]] Judgement judge_recorded(const Criterion& criterion, const std::string& reference,
                                       const std::string& path);

}  // namespace rlreplay::bisect

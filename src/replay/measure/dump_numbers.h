#pragma once

#include <string>

#include "src/replay/measure/measurement.h"

namespace rlreplay::measure {

/// Reads from a dump what rules compare: its steps, scalars, digests of weights and of inputs, the
/// content root, and log-probabilities where they are asked for.
/// Errors: those of the format; kIncomplete for a dump without steps or that was not recorded to
/// its end, kUnsupported for one of several ranks.
void read_dump_numbers(const std::string& path, bool log_probs, Measurement& measurement);

}  // namespace rlreplay::measure

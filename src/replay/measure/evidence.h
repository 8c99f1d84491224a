#pragma once

#include <string>

#include "src/base/process.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::measure {

/// What a run that has ended, and left things in its output folder, is measured as. Dumps of slime,
/// Miles and Relax are imported, beside that folder. Of what was left only known names are looked
/// at; what cannot be read is a measurement, too.
[[nodiscard]] Measurement read_evidence(const ProcessResult& run, const std::string& output,
                                        bool log_probs);

/// What lies at a path: a metrics file, a dump, or an output folder with one of them.
/// Errors: kIncomplete when there is none of these.
[[nodiscard]] Measurement read_recorded(const std::string& path, bool log_probs);

}  // namespace rlreplay::measure

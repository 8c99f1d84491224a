#pragma once

#include <string>

#include "src/base/json_value.h"
#include "src/replay/measure/measurement.h"

namespace rlreplay::bisect {

/// A measurement as one line, which loses no bit.
[[nodiscard]] std::string to_json(const measure::Measurement& measurement);

/// Errors: kCorrupt.
[[nodiscard]] measure::Measurement measurement_of(const JsonValue& value);

}  // namespace rlreplay::bisect

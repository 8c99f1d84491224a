#pragma once

#include <string>

#include "src/replay/compare/dumps_difference.h"

namespace rlreplay::bisect {

/// Parts of a page that show in what two dumps differ: options, program, environment and data;
/// which layers in which phases, and how far their floats lie apart. Empty without such.
[[nodiscard]] std::string divergence_html(const replay::DumpsDifference& difference);

/// A page of two dumps. `report`: its text for people.
[[nodiscard]] std::string dumps_html(const replay::DumpsDifference& difference,
                                     const std::string& name_a, const std::string& name_b,
                                     const std::string& report);

}  // namespace rlreplay::bisect

#pragma once

#include <CLI/Validators.hpp>
#include <cmath>
#include <string>

namespace rlreplay::replay {

/// Whether a number is a distance: nan and inf are none.
inline bool is_distance(double value) { return value >= 0 && std::isfinite(value); }

/// Of an option whose number is a distance.
inline CLI::Validator finite_not_negative() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return "";  // is refused as no number
        return is_distance(value) ? "" : text + " is not a finite number from 0 on";
      },
      "", "");
}

}  // namespace rlreplay::replay

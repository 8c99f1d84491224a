#pragma once

#include <CLI/Validators.hpp>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlreplay::replay {

/// Whether a number is a distance: nan and inf are none.
[[nodiscard]] inline bool is_distance(double value) { return value >= 0 && std::isfinite(value); }

/// The check of an option whose number is a distance.
[[nodiscard]] inline CLI::Validator finite_not_negative() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return "";  // is refused as no number
        return is_distance(value) ? "" : text + " is not a finite number from 0 on";
      },
      "", "");
}

/// The check of an option whose number is an id: one below 0 would be read as a large one.
[[nodiscard]] inline CLI::Validator not_negative() {
  return CLI::Validator(
      [](std::string& text) { return text.starts_with('-') ? text + " is no id" : std::string(); },
      "", "");
}

/// The check of an option whose value is one of these names, or one of `more`.
[[nodiscard]] inline CLI::Validator one_of(std::span<const std::string_view> names,
                                           std::initializer_list<const char*> more = {}) {
  std::vector<std::string> all(names.begin(), names.end());
  all.insert(all.end(), more.begin(), more.end());
  return CLI::IsMember(all);
}

}  // namespace rlreplay::replay

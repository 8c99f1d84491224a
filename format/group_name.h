#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/parse_number.h"

namespace rlreplay::format {

/// The rollout, or the step of one, that a group of a unit stands for: `3`, `3-0`.
struct GroupName {
  int64_t rollout = 0;
  std::optional<int64_t> step;

  friend auto operator<=>(const GroupName&, const GroupName&) = default;

  /// Nothing for a name of another form.
  static std::optional<GroupName> parse(std::string_view text) {
    const size_t dash = text.find('-', 1);
    const auto rollout = parse_number<int64_t>(text.substr(0, dash));
    if (!rollout) return std::nullopt;
    if (dash == text.npos) return GroupName{*rollout, std::nullopt};
    const auto step = parse_number<int64_t>(text.substr(dash + 1));
    return step ? std::optional(GroupName{*rollout, step}) : std::nullopt;
  }
  std::string str() const {
    return std::to_string(rollout) + (step ? "-" + std::to_string(*step) : "");
  }
};

}  // namespace rlreplay::format

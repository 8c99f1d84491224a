#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/number_text.h"

namespace rlreplay::format {

/// The rollout, or the step of one, that a group of a unit stands for: `3`, `3-0`.
struct GroupName {
  int64_t rollout = 0;
  std::optional<int64_t> step;

  friend auto operator<=>(const GroupName&, const GroupName&) = default;

  /// Nothing for a name of another form: numbers as they are printed, so not `07`.
  [[nodiscard]] static std::optional<GroupName> parse(std::string_view text) {
    const size_t dash = text.find('-', 1);
    const auto rollout = parse_number<int64_t>(text.substr(0, dash));
    if (!rollout) return std::nullopt;
    GroupName out{*rollout, std::nullopt};
    if (dash != text.npos) {
      out.step = parse_number<int64_t>(text.substr(dash + 1));
      if (!out.step) return std::nullopt;
    }
    return out.str() == text ? std::optional(out) : std::nullopt;
  }
  std::string str() const {
    return std::to_string(rollout) + (step ? "-" + std::to_string(*step) : "");
  }
};

/// A rollout's group; nothing for a step's, or a name of another form.
[[nodiscard]] inline std::optional<int64_t> parse_rollout(std::string_view text) {
  const auto name = GroupName::parse(text);
  return name && !name->step ? std::optional(name->rollout) : std::nullopt;
}

/// Whether units of a kind may hold a group of this name: those of rollouts a rollout, those of
/// training and of states a step, others any.
[[nodiscard]] inline bool sound_group_name(std::string_view kind, std::string_view text) {
  if (kind != "rollout" && kind != "train" && kind != "weights") return true;
  const auto name = GroupName::parse(text);
  return name && name->step.has_value() == (kind != "rollout");
}

}  // namespace rlreplay::format

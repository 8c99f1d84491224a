#include "src/replay/step_id.h"

#include <charconv>

namespace rlreplay::replay {

std::optional<int64_t> parse_id(std::string_view text) {
  int64_t id = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), id);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return id;
}

std::optional<StepId> parse_step(std::string_view text) {
  const size_t between = text.find_first_of(".-", 1);
  if (between == text.npos) return std::nullopt;
  const auto rollout = parse_id(text.substr(0, between));
  const auto step = parse_id(text.substr(between + 1));
  if (!rollout || !step) return std::nullopt;
  return StepId{*rollout, *step};
}

}  // namespace rlreplay::replay

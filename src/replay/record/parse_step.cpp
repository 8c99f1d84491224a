#include "src/replay/record/parse_step.h"

#include <string>

#include "format/group_name.h"

namespace rlreplay::replay {

std::optional<StepId> parse_step(std::string_view text) {
  std::string group(text);
  if (const size_t dot = group.find('.', 1); dot != group.npos) group[dot] = '-';
  const auto name = format::GroupName::parse(group);
  if (!name || !name->step) return std::nullopt;
  return StepId{name->rollout, *name->step};
}

}  // namespace rlreplay::replay

#include "src/replay/inspect/unread_rollouts.h"

#include <algorithm>
#include <utility>

#include "format/group_name.h"
#include "format/unit.h"
#include "src/base/words.h"
#include "src/replay/inspect/verified.h"

namespace rlreplay::replay {

UnreadRollouts::UnreadRollouts(const format::DumpReader& dump,
                               const std::vector<format::Problem>& problems) {
  for (const format::Problem& problem : problems) {
    const format::UnitRecord* unit = dump.find(problem.path);
    if (unit == nullptr) continue;
    const std::string_view kind = format::kind_of(unit->path);
    states_ = states_ || kind == "weights";
    extensions_ = extensions_ || kind.starts_with("x-");
    if (kind != "rollout" && kind != "train") continue;
    for (const std::string& group : unit->groups) {
      const bool other = !problem.dataset.empty() && problem.dataset != group &&
                         !problem.dataset.starts_with(group + "/");
      const auto name = format::GroupName::parse(group);
      if (name && !other) ids_.insert(name->rollout);
    }
  }
}

bool UnreadRollouts::ends_reading(const Error& error) {
  return is_about_input(error) || is_outside_support(error);
}

void UnreadRollouts::add(int64_t rollout, Fault fault) {
  ids_.insert(rollout);
  faults_.push_back(std::move(fault));
}

std::string UnreadRollouts::text() const {
  constexpr size_t kMost = 8;
  if (ids_.empty()) return "";
  std::vector<std::string> named;
  for (const int64_t id : ids_) {
    if (named.size() == kMost) break;
    named.push_back(std::to_string(id));
  }
  const size_t more = ids_.size() - named.size();
  return "what the values of rollout" + std::string(ids_.size() == 1 ? " " : "s ") +
         joined(named, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "") +
         (ids_.size() == 1 ? ", and of its steps, mean: it holds"
                           : ", and of their steps, mean: they hold") +
         " what cannot be read";
}

}  // namespace rlreplay::replay

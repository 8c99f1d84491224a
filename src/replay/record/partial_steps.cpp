#include "src/replay/record/partial_steps.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "format/record.h"
#include "format/unit.h"
#include "src/replay/record/missing_ranks.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {

std::set<int64_t> ranks_that_hold(std::span<const format::IndexedGroup> holders) {
  std::set<int64_t> out;
  for (const format::IndexedGroup& of : holders) {
    if (!format::is_part(of.path)) out.insert(format::rank_of(of.path));
  }
  return out;
}

std::vector<PartialStep> partial_steps(const format::DumpReader& dump) {
  std::vector<PartialStep> out;
  if (dump.complete()) return out;
  const int64_t ranks = format::ranks_of(dump.meta());
  dump.units().index().for_each_name([&](std::span<const format::IndexedGroup> holders) {
    const auto step = holders[0].kind() == "train" ? parse_step(holders[0].name) : std::nullopt;
    if (!step) return;
    std::string missing = missing_ranks(ranks_that_hold(holders), ranks);
    if (!missing.empty()) out.push_back({*step, std::move(missing)});
  });
  std::ranges::sort(out, {}, &PartialStep::step);
  return out;
}

std::vector<std::string> partial_notes(const format::DumpReader& dump) {
  std::vector<std::string> out;
  for (const PartialStep& partial : partial_steps(dump)) {
    out.push_back("values of step " + partial.step.name() +
                  ": these ranks hold no part of it: " + partial.missing);
  }
  return out;
}

std::string left_out_text(const format::DumpReader& dump) {
  const std::vector<PartialStep> partial = partial_steps(dump);
  if (partial.empty()) return {};
  const bool several = partial.size() > 1;
  return "step " + partial.front().step.name() +
         (several ? " and " + std::to_string(partial.size() - 1) + " more are" : " is") +
         " left out: of step " + partial.front().step.name() +
         " these ranks hold no part: " + partial.front().missing;
}

}  // namespace rlreplay::replay

#include "src/replay/compare/rank_difference.h"

#include <algorithm>
#include <set>

#include "format/group_io.h"
#include "format/unit.h"
#include "src/base/same_value.h"
#include "src/events/name.h"
#include "src/replay/compare/event_difference.h"
#include "src/replay/record/event_store.h"
#include "src/replay/record/event_units.h"

namespace rlreplay::replay {
namespace {

using engine::StepEvents;

/// What each rank says of a scalar.
using Said = std::map<int64_t, double>;

std::map<std::string, Said> read_scalars(const ContentGroup& group, const GroupUnits& from) {
  std::map<std::string, Said> out;
  for (const format::UnitReader& unit : from.units) {
    std::optional<format::NamedColumns> scalars;
    format::GroupReader(from.dump, unit, group.name).named("scalars", scalars, 0);
    for (size_t i = 0; scalars && i < scalars->names.size(); ++i) {
      out[scalars->names[i]].emplace(format::rank_of(unit.record().path), scalars->values[i]);
    }
  }
  return out;
}

/// What all ranks say is said once.
bool agree(const Said& said) {
  return std::ranges::all_of(
      said, [&](const auto& s) { return same_value(s.second, said.begin()->second); });
}

std::set<int64_t> ranks_of(const auto& a, const auto& b) {
  std::set<int64_t> ranks;
  for (const auto* side : {&a, &b}) {
    for (const auto& [rank, of] : *side) ranks.insert(rank);
  }
  return ranks;
}

void compare_scalar(FieldDifference& of, const Said& a, const Said& b, const ValueDifference& place,
                    FieldComparison& values) {
  const auto value = [](const Said& said, int64_t rank) -> std::optional<FieldValues> {
    const auto at = said.find(rank);
    if (at == said.end()) return std::nullopt;
    return FieldValues{std::span<const double>(&at->second, 1), std::nullopt};
  };
  values.at(place);
  if (agree(a) && agree(b)) {
    const auto first = [&](const Said& said) {
      return said.empty() ? std::nullopt : value(said, said.begin()->first);
    };
    return values.compare(of, first(a), first(b));
  }
  for (const int64_t rank : ranks_of(a, b)) {
    ValueDifference of_rank = place;
    of_rank.rank = rank;
    values.at(of_rank);
    values.compare(of, value(a, rank), value(b, rank));
  }
}

void compare_rank_events(FieldDifference& of, const std::optional<StepEvents>& left,
                         const std::optional<StepEvents>& right, const ValueDifference& place,
                         FieldComparison& values) {
  values.at(place);
  if (!left && !right) return;
  if (!left || !right) return values.missing(of, !right, "recorded");
  for (const auto& [x, y] : paired_events(*left, *right)) {
    ValueDifference at = place;
    at.tensor = to_string((x != nullptr ? x : y)->event);
    values.at(at);
    if (x == nullptr || y == nullptr) {
      values.missing(of, x != nullptr, "recorded");
      continue;
    }
    const std::string what = differing_part(*left, *x, *right, *y);
    const int more = detail_of(*x) - detail_of(*y);
    if (what.empty() && more != 0) {
      values.missing(of, more > 0, "recorded");
      continue;
    }
    ++of.compared;
    if (what == "digest") values.differs(of, x->digest.hex(), y->digest.hex());
    if (!what.empty() && what != "digest") values.differs(of, "other " + what, "other " + what);
  }
}

}  // namespace

void compare_scalars(const ContentGroup& group, const GroupUnits& a, const GroupUnits& b,
                     const ValueDifference& place, FieldComparison& values) {
  auto in_a = read_scalars(group, a), in_b = read_scalars(group, b);
  std::set<std::string> names;
  for (const auto* side : {&in_a, &in_b}) {
    for (const auto& [name, said] : *side) names.insert(name);
  }
  for (const std::string& name : names) {
    compare_scalar(values.field("step/" + name), in_a[name], in_b[name], place, values);
  }
}

void compare_recorded_events(const ContentGroup& group, const GroupUnits& a, const GroupUnits& b,
                             const ValueDifference& place, FieldComparison& values) {
  const auto in_a = event_units(a.units, group.name), in_b = event_units(b.units, group.name);
  const std::set<int64_t> ranks = ranks_of(in_a, in_b);
  FieldDifference& of = values.field(group.kind + "/events", false);
  for (const int64_t rank : ranks) {
    const auto read = [&](const format::DumpReader& dump, const auto& units) {
      const auto unit = units.find(rank);
      return unit == units.end()
                 ? std::nullopt
                 : std::optional(read_events(dump, *unit->second, group.name, place.rollout_id,
                                             place.step_id.value_or(0)));
    };
    ValueDifference at = place;
    if (ranks.size() > 1) at.rank = rank;
    compare_rank_events(of, read(a.dump, in_a), read(b.dump, in_b), at, values);
  }
}

}  // namespace rlreplay::replay

#include "src/replay/record/event_units.h"

#include <utility>
#include <vector>

#include "src/base/error.h"

namespace rlreplay::replay {

bool has_events(const format::UnitReader& unit, const std::string& group) {
  return unit.find(group + "/events/tensors") != nullptr;
}

std::map<int64_t, const format::UnitReader*> event_units(std::span<const format::UnitReader> units,
                                                         const std::string& group) {
  std::map<int64_t, const format::UnitReader*> out;
  for (const format::UnitReader& unit : units) {
    if (!has_events(unit, group)) continue;
    const std::string& path = unit.record().path;
    const auto [at, fresh] = out.try_emplace(format::rank_of(path), &unit);
    if (!fresh) {
      throw format::FormatError(format::Rule::kMeaning,
                                "its events lie in " + at->second->record().path +
                                    " too: which of them were recorded cannot be known",
                                path, group + "/events/tensors");
    }
  }
  return out;
}

std::map<int64_t, format::UnitReader> event_units(const format::DumpReader& dump, const char* kind,
                                                  const std::string& group) {
  std::vector<format::UnitReader> units;
  for (const format::UnitRecord* record : dump.find(kind, group)) {
    format::UnitReader unit = dump.open_unit(*record);
    if (has_events(unit, group)) units.push_back(std::move(unit));
  }
  static_cast<void>(event_units(units, group));  // one a rank
  std::map<int64_t, format::UnitReader> out;
  for (format::UnitReader& unit : units) {
    const int64_t rank = format::rank_of(unit.record().path);
    out.emplace(rank, std::move(unit));
  }
  return out;
}

std::optional<format::UnitReader> open_events(const format::DumpReader& dump, const char* kind,
                                              const std::string& group) {
  auto units = event_units(dump, kind, group);
  if (units.empty()) return std::nullopt;
  if (units.size() > 1) {
    throw Error(ErrorCode::kUnsupported,
                "events of " + std::to_string(units.size()) +
                    " ranks: a replay compares those of one; rlreplay diff compares all",
                units.begin()->second.record().path);
  }
  return std::move(units.begin()->second);
}

}  // namespace rlreplay::replay

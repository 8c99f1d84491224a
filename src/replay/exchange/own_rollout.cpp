#include "src/replay/exchange/own_rollout.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "format/columns.h"
#include "src/base/error.h"
#include "src/replay/exchange/jsonl_form.h"
#include "src/replay/exchange/own_datasets.h"

namespace rlreplay::replay {
namespace {

using format::Dataset;
using format::RolloutData;

/// The names of what the columns are written as.
std::set<std::string> names_of(const std::shared_ptr<const RolloutData>& data,
                               const std::string& group) {
  std::set<std::string> names;
  for (const Dataset& dataset : to_datasets(data, group)) {
    names.insert(dataset.path.substr(group.size() + 1));
  }
  return names;
}

/// Samples of slime have no calls, no roles, and of experts their numbers alone.
bool is_of_calls(std::string_view name) {
  return name.starts_with("call_") || name.starts_with("expert_") || name == "roles" ||
         name == "roles_present";
}

/// Whether it says of every sample that it is there, which an import would not write.
bool is_needless_mask(const format::DumpReader& dump, const format::UnitReader& unit,
                      const std::string& path) {
  if (!path.ends_with("_present")) return false;
  const Buffer<std::byte> bytes = dump.read(unit, *unit.find(path));
  return std::all_of(bytes.data(), bytes.data() + bytes.size(),
                     [](std::byte b) { return b == std::byte{1}; });
}

/// Every sample of slime says whether it was removed; an import of samples that were not says
/// nothing.
void settle_removed(RolloutData& data) {
  if (!data.removed) return;
  for (size_t s = 0; s < data.size(); ++s) {
    if (!data.removed->has(s)) data.removed->values[s] = 0;
  }
  data.removed->presence.clear();
  if (std::ranges::count(data.removed->values, uint8_t{1}) == 0) data.removed.reset();
}

bool is_of_events(const std::string& name) { return name.starts_with("events/"); }

/// Those of the one unit that says more than events.
std::vector<Dataset> own_of_one(const format::DumpReader& dump, const format::UnitReader& unit,
                                const std::string& group,
                                const std::shared_ptr<const RolloutData>& data) {
  const std::set<std::string> columns = names_of(data, group);
  return read_datasets(dump, unit, group, [&](const std::string& name) {
    if (is_of_events(name)) return false;
    if (is_of_calls(name)) return data->calls || !name.starts_with("call_");
    const bool of_a_column = columns.contains(name) || name == "coordinates";
    return !of_a_column || is_needless_mask(dump, unit, group + "/" + name);
  });
}

/// Those of several, as their samples are joined.
std::vector<Dataset> own_of_several(std::span<const format::UnitReader> units,
                                    const std::string& group,
                                    const std::shared_ptr<const RolloutData>& data) {
  std::vector<Dataset> out;
  for (Dataset& dataset : to_datasets(data, group)) {
    if (!is_of_calls(dataset.path.substr(group.size() + 1))) continue;
    const auto owner =
        std::make_shared<const std::vector<std::byte>>(dataset.bytes.begin(), dataset.bytes.end());
    dataset.bytes = *owner;
    dataset.owner = owner;
    out.push_back(std::move(dataset));
  }
  for (const format::UnitReader& unit : units) {
    for (const format::StoredDataset& stored : unit.datasets_of(group)) {
      const std::string name = stored.path.substr(group.size() + 1);
      if (is_of_events(name) || format::find_known("rollout", name) != nullptr) continue;
      throw Error(ErrorCode::kUnsupported,
                  stored.path +
                      " lies in one of several units of its rollout, and is in none of "
                      "the tables that say whose it is: export it as jsonl",
                  unit.record().path);
    }
  }
  return out;
}

}  // namespace

std::vector<const format::UnitReader*> units_beside_events(
    std::span<const format::UnitReader> units, const std::string& group) {
  std::vector<const format::UnitReader*> out;
  for (const format::UnitReader& unit : units) {
    if (!holds_events_alone(unit, group)) out.push_back(&unit);
  }
  return out;
}

std::vector<Dataset> own_datasets_of(const format::DumpReader& dump,
                                     std::span<const format::UnitReader> units,
                                     const std::string& group,
                                     const std::shared_ptr<const RolloutData>& data) {
  const auto saying = units_beside_events(units, group);
  std::vector<Dataset> out = saying.size() == 1 ? own_of_one(dump, *saying.front(), group, data)
                                                : own_of_several(units, group, data);
  for (const format::UnitReader& unit : units) {
    std::ranges::move(read_datasets(dump, unit, group, is_of_events), std::back_inserter(out));
  }
  std::ranges::sort(out, {}, &Dataset::path);
  return out;
}

std::vector<Dataset> imported_datasets(const std::shared_ptr<RolloutData>& data,
                                       const std::string& group, std::span<const Dataset> own) {
  data->calls.reset();
  data->roles.reset();
  if (data->experts) {
    data->experts->layer_ids.reset();
    data->experts->gates.reset();
    data->experts->recorded.reset();
  }
  jsonl::keep_what_lines_say(*data);
  settle_removed(*data);
  if (data->versions && data->versions->versions.empty()) data->versions.reset();
  if (!data->prompt_length) data->prompt_length.emplace(data->size(), 0);
  std::vector<Dataset> out = to_datasets(data, group);
  for (const Dataset& dataset : own) {
    const auto there =
        std::ranges::any_of(out, [&](const Dataset& other) { return other.path == dataset.path; });
    if (!there && !dataset.path.starts_with(group + "/events/")) out.push_back(dataset);
  }
  return out;
}

}  // namespace rlreplay::replay

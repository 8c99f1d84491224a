#include "src/replay/record/event_store.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "format/group_io.h"
#include "format/group_name.h"
#include "src/replay/record/event_columns.h"
#include "src/replay/record/event_decoder.h"

namespace rlreplay::replay {
namespace {

using engine::EventRecord;
using engine::StepEvents;
using format::GroupReader;
using format::GroupWriter;

std::string values_name(DType dtype) {
  return "events/values_" + std::string(rlreplay::to_string(dtype));
}

bool is_needed(std::string_view name) {
  return name == "events/tensors" || name == "events/rank" || name == "events/rows" ||
         name == "events/digest";
}

/// Fills the columns that a unit lacks, where its table records less, with what says "none".
void fill_absent(EventColumns& c) {
  const size_t e = c.rank.size();
  if (c.nonfinite.empty()) c.nonfinite.resize(4 * e);
  if (c.row_set.empty()) c.row_set.assign(e, -1);
  if (c.row_digest_offsets.empty()) c.row_digest_offsets.resize(e + 1);
  for (auto* column : {&c.value_start, &c.value_count}) {
    if (column->empty()) column->resize(e);
  }
}

}  // namespace

std::vector<format::Dataset> event_datasets(const StepEvents& events, const std::string& group) {
  const auto columns = std::make_shared<const EventColumns>(event_columns(events));
  GroupWriter writer(group, columns, {});
  visit_arrays(*columns, [&](const char* name, const auto& values, uint64_t width) {
    std::vector<uint64_t> shape{values.size() / width};
    if (width > 1) shape.push_back(width);
    using T = typename std::decay_t<decltype(values)>::value_type;
    writer.add(name, format::dtype_for<T>(), shape, std::as_bytes(std::span(values)));
  });
  const auto has_stats = [](const EventRecord& r) { return r.stats.has_value(); };
  if (std::ranges::any_of(events.events, has_stats)) {
    writer.add("events/stats", DType::kF64, {columns->stats.size() / 4, 4},
               std::as_bytes(std::span(columns->stats)));
  }
  if (!columns->parent_offsets.empty()) {
    writer.add("events/parent_offsets", DType::kU64, {columns->parent_offsets.size()},
               std::as_bytes(std::span(columns->parent_offsets)));
    writer.add("events/parents", DType::kU64, {columns->parents.size()},
               std::as_bytes(std::span(columns->parents)));
  }
  for (size_t i = 0; i < std::size(kValueTypes); ++i) {
    const auto& values = columns->values[i];
    if (values.empty()) continue;
    writer.add(values_name(kValueTypes[i]), kValueTypes[i],
               {values.size() / size_of(kValueTypes[i])}, values);
  }
  return writer.finish();
}

StepEvents read_events(const format::DumpReader& dump, const format::UnitReader& unit,
                       const std::string& group, int64_t rollout_id, int64_t step_id) {
  const GroupReader reader(dump, unit, group);
  EventColumns columns;
  visit_arrays(columns, [&](const char* name, auto& values, uint64_t) {
    const format::StoredDataset* dataset = reader.find(name);
    values.clear();
    if (dataset == nullptr && !is_needed(name)) return;
    dataset = &reader.needed(name);
    values = reader.read<typename std::decay_t<decltype(values)>::value_type>(*dataset);
  });
  if (const auto* stats = reader.find("events/stats")) columns.stats = reader.read<double>(*stats);
  for (size_t i = 0; i < std::size(kValueTypes); ++i) {
    const format::StoredDataset* dataset = reader.find(values_name(kValueTypes[i]));
    if (dataset == nullptr) continue;
    reader.check_form(*dataset, kValueTypes[i]);
    columns.values[i] = reader.read_bytes<std::vector<std::byte>>(*dataset);
  }
  for (auto [name, values] : {std::pair("events/parent_offsets", &columns.parent_offsets),
                              std::pair("events/parents", &columns.parents)}) {
    if (const auto* dataset = reader.find(name)) *values = reader.read<uint64_t>(*dataset);
  }
  if (columns.row_set_offsets.empty()) columns.row_set_offsets = {0};
  fill_absent(columns);
  const bool rollout = format::parse_rollout(group).has_value();
  const engine::Phase phase = rollout ? engine::Phase::kRollout : engine::Phase::kForward;
  return decode_events(reader, columns, phase, rollout_id, step_id);
}

}  // namespace rlreplay::replay

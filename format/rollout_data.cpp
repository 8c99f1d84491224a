#include "format/rollout_data.h"

#include <algorithm>

#include "format/absent_values.h"
#include "format/group_io.h"
#include "format/partial_read.h"
#include "format/rollout_join.h"

namespace rlreplay::format {
namespace {

/// Whether each sample's sizes add up to its ids.
bool agree(const std::vector<uint64_t>& offsets, const TokenSets& sets) {
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    uint64_t sum = 0;
    for (uint64_t t = offsets[s]; t < offsets[s + 1]; ++t) sum += sets.sizes[t];
    if (sum != sets.offsets[s + 1] - sets.offsets[s]) return false;
  }
  return true;
}

/// Whether each call lies within its sample, behind the one before.
bool are_within(const RolloutData& data) {
  const Calls& calls = *data.calls;
  for (size_t s = 0; s < data.size(); ++s) {
    uint64_t next = 0;
    for (uint64_t c = calls.offsets[s]; c < calls.offsets[s + 1]; ++c) {
      if (calls.first[c] < next) return false;
      next = uint64_t{calls.first[c]} + calls.length[c];
    }
    if (next > data.offsets[s + 1] - data.offsets[s]) return false;
  }
  return true;
}

/// Every rule of the fields beyond their lengths. Returns what is wrong, or null.
const char* contradiction(const RolloutData& data) {
  for (size_t s = 0; s + 1 < data.size(); ++s) {
    if (data.sample_id[s] >= data.sample_id[s + 1]) return "the ids of samples do not ascend";
  }
  for (size_t s = 0; data.prompt_length && s < data.size(); ++s) {
    const uint64_t length = data.offsets[s + 1] - data.offsets[s];
    if ((*data.prompt_length)[s] > length) return "a prompt is longer than its sample";
  }
  for (const auto* mask : {&data.loss_mask, &data.removed}) {
    if (*mask && std::ranges::any_of((*mask)->values, [](uint8_t m) { return m > 1; })) {
      return "the loss mask, or `removed`, holds values other than 0 and 1";
    }
  }
  const auto* recorded =
      data.experts && data.experts->recorded ? &*data.experts->recorded : nullptr;
  if (recorded != nullptr && std::ranges::any_of(*recorded, [](uint8_t r) { return r > 1; })) {
    return "`expert_recorded` holds values other than 0 and 1";
  }
  if (data.calls && !are_within(data)) return "calls do not lie one after the other in a sample";
  if (data.nucleus && !agree(data.offsets, *data.nucleus)) {
    return "the sizes of nuclei do not add up to the ids of each sample";
  }
  return nullptr;
}

// Forms of columns that are more than GroupWriter and GroupReader know.

template <class T>
void put(GroupWriter& writer, std::string_view name, const T& column, size_t rows) {
  writer.put(name, column, rows);
}

void put(GroupWriter& writer, std::string_view, const std::optional<Versions>& versions, size_t) {
  if (!versions) return;
  const size_t count = versions->versions.size();
  writer.offsets("version_offsets", versions->offsets, count);
  writer.put("versions", versions->versions, count);
  writer.put("version_starts", versions->starts, count);
}

void put(GroupWriter& writer, std::string_view, const std::optional<Calls>& calls, size_t) {
  if (!calls) return;
  writer.offsets("call_offsets", calls->offsets, calls->size());
  writer.put("call_first", calls->first, calls->size());
  writer.put("call_length", calls->length, calls->size());
  Calls::for_each_column([&](std::string_view name, auto member) {
    writer.put(name, (*calls).*member, calls->size());
  });
}

/// Stored in the narrowest type that holds them.
void put(GroupWriter& writer, std::string_view name, const std::optional<Experts>& of,
         size_t tokens) {
  if (!of) return;
  const std::vector<uint64_t> shape = {tokens, of->layers, of->slots};
  const auto expect = [&](std::string_view dataset, size_t size) {
    writer.expect(elements_of(shape) == size, dataset,
                  "there are " + std::to_string(size) + " values, expected " + shape_text(shape));
  };
  writer.put("expert_layers", of->layer_ids, of->layers);
  writer.put("expert_recorded", of->recorded, tokens);
  if (of->gates) {
    expect("expert_gates", of->gates->size());
    writer.add("expert_gates", DType::kF32, shape, std::as_bytes(std::span(*of->gates)));
  }
  expect(name, of->experts.size());
  if (std::ranges::any_of(of->experts, [](uint16_t expert) { return expert > UINT8_MAX; })) {
    return writer.add(name, DType::kU16, shape, std::as_bytes(std::span(of->experts)));
  }
  std::vector<uint8_t> narrow(of->experts.begin(), of->experts.end());
  writer.add(dataset_of(writer.path(name), DType::kU8, shape, std::move(narrow)));
}

template <class T>
void take(GroupReader& reader, std::string_view name, T& column, Extents, size_t rows) {
  reader.take(name, column, rows);
}

/// They are read first: they say how many there are.
void take(GroupReader&, std::string_view, std::vector<int32_t>&, Extents, size_t) {}

void take(GroupReader& reader, std::string_view name, std::optional<Versions>& to, Extents extents,
          size_t) {
  const StoredDataset* dataset = reader.find(name);
  if (dataset == nullptr) return;
  Versions& versions = to.emplace();
  versions.versions = reader.read<int64_t>(*dataset);
  const size_t count = versions.versions.size();
  versions.offsets = reader.offsets("version_offsets", extents.samples, count);
  reader.take("version_starts", versions.starts, count);
}

void take(GroupReader& reader, std::string_view, std::optional<Calls>& to, Extents extents,
          size_t) {
  bool any = false;
  const auto look = [&](std::string_view name, auto...) { any |= reader.find(name) != nullptr; };
  for (const char* name : {"call_offsets", "call_first", "call_length"}) look(name);
  Calls::for_each_column(look);
  if (!any) return;
  Calls& calls = to.emplace();
  calls.first = reader.read<uint32_t>(reader.needed("call_first"));
  const size_t count = calls.size();
  calls.offsets = reader.offsets("call_offsets", extents.samples, count);
  reader.take("call_length", calls.length, count);
  Calls::for_each_column(
      [&](std::string_view name, auto member) { reader.take(name, calls.*member, count); });
}

void take(GroupReader& reader, std::string_view name, std::optional<Experts>& to, Extents,
          size_t tokens) {
  const StoredDataset* dataset = reader.find(name);
  if (dataset == nullptr) return;
  if (dataset->shape.size() != 3 || dataset->shape[0] != tokens) {
    reader.refuse(name, "its shape is " + shape_text(dataset->shape) + ", expected [" +
                            std::to_string(tokens) + ", layers, slots]");
  }
  Experts& experts = to.emplace();
  experts.layers = dataset->shape[1];
  experts.slots = dataset->shape[2];
  if (dataset->dtype == DType::kU16) {
    experts.experts = reader.read<uint16_t>(*dataset);
  } else {
    const std::vector<uint8_t> narrow = reader.read<uint8_t>(*dataset);
    experts.experts.assign(narrow.begin(), narrow.end());
  }
  reader.take("expert_layers", experts.layer_ids, experts.layers);
  reader.take("expert_gates", experts.gates, experts.experts.size());
  reader.take("expert_recorded", experts.recorded, tokens);
}

std::vector<int32_t> read_tokens(GroupReader& reader) {
  const StoredDataset* const dataset = &reader.needed("tokens");
  const auto expect_ids = [&](const auto& ids) {
    const auto odd = std::ranges::find_if(ids, [](int64_t id) { return id < 0 || id > INT32_MAX; });
    if (odd == ids.end()) return;
    reader.refuse("tokens", "token " + std::to_string(odd - ids.begin()) + " is " +
                                std::to_string(*odd) + ", expected an id of 0 to 2^31 - 1");
  };
  if (dataset->dtype != DType::kI64) {
    std::vector<int32_t> ids = reader.read<int32_t>(*dataset);
    expect_ids(ids);
    return ids;
  }
  const std::vector<int64_t> wide = reader.read<int64_t>(*dataset);
  expect_ids(wide);
  return {wide.begin(), wide.end()};
}

}  // namespace

std::string_view to_string(Finish finish) {
  switch (finish) {
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kAborted:
      return "aborted";
    case Finish::kFailed:
      return "failed";
    case Finish::kUnknown:
      break;
  }
  return "unknown";
}

std::vector<Dataset> to_datasets(std::shared_ptr<const RolloutData> data,
                                 const std::string& group) {
  const Extents extents{data->size(), data->tokens.size()};
  GroupWriter writer(group, data, extents);
  writer.offsets("offsets", data->offsets, extents.tokens);
  writer.put("sample_id", data->sample_id, extents.samples);
  for_each_rollout_column([&](std::string_view name, auto member, Axis axis) {
    put(writer, name, (*data).*member, extents.of(axis));
  });
  if (const char* message = contradiction(*data)) throw Error(ErrorCode::kUsage, message, group);
  return writer.finish();
}

namespace {

RolloutData read_fields(GroupReader reader) {
  RolloutData data;
  data.tokens = read_tokens(reader);
  const StoredDataset& ids = reader.needed("sample_id");
  reader.check_form(ids, DType::kU64);
  const Extents extents{ids.shape[0], data.tokens.size()};
  reader.set_extents(extents);
  data.offsets = reader.offsets("offsets", extents.samples, extents.tokens);
  reader.take("sample_id", data.sample_id, extents.samples);
  for_each_rollout_column([&](std::string_view name, auto member, Axis axis) {
    take(reader, name, data.*member, extents, extents.of(axis));
  });
  settle_absent(reader, data);
  reader.check_presences();
  if (const char* message = contradiction(data)) reader.refuse("sample_id", message);
  return data;
}

}  // namespace

RolloutData read_rollout_data(const DumpReader& dump, const UnitReader& unit,
                              const std::string& group, HeldBytes* held) {
  return read_fields(GroupReader(dump, unit, group, held));
}

RolloutData read_rollout_data(const DumpReader& dump, const UnitReader& unit,
                              const std::string& group, std::vector<std::string> leave_out) {
  GroupReader reader(dump, unit, group);
  reader.leave_out(std::move(leave_out));
  return read_fields(std::move(reader));
}

bool holds_events_alone(const UnitReader& unit, const std::string& group) {
  const auto has = [&](const char* name) { return unit.find(group + name) != nullptr; };
  return has("/events/tensors") && !has("/sample_id") && !has("/tokens");
}

std::optional<RolloutData> find_rollout_data(const DumpReader& dump, int64_t id, HeldBytes* held) {
  const std::string group = std::to_string(id);
  std::vector<RolloutData> parts;
  for (const UnitRecord* record : dump.find("rollout", group)) {
    const UnitReader unit = dump.open_unit(*record);
    if (!holds_events_alone(unit, group))
      parts.push_back(read_rollout_data(dump, unit, group, held));
  }
  if (parts.empty()) return std::nullopt;
  if (parts.size() == 1) return std::move(parts.front());
  return join_rollout(parts, "rollout/" + group);
}

}  // namespace rlreplay::format

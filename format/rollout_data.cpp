#include "format/rollout_data.h"

#include <algorithm>

#include "format/group_io.h"
#include "format/partial_read.h"
#include "format/rollout_join.h"

namespace rlreplay::format {
namespace {

/// The fields that are one dataset, or one with its companions.
template <class Data, class Visitor>
void visit_rollout(Data& data, Visitor& visitor) {
  visitor("sample_id", data.sample_id, Axis::kSample);
  visitor("group_id", data.group_id, Axis::kSample);
  visitor("trajectory_id", data.trajectory_id, Axis::kSample);
  visitor("prompt_length", data.prompt_length, Axis::kSample);
  visitor("log_probs", data.log_probs, Axis::kToken);
  visitor("nucleus", data.nucleus, Axis::kToken);
  visitor("loss_mask", data.loss_mask, Axis::kToken);
  visitor("removed", data.removed, Axis::kSample);
  visitor("roles", data.roles, Axis::kToken);
  visitor("rewards", data.rewards, Axis::kSample);
  visitor("finish", data.finish, Axis::kSample);
  visitor("prompt_text", data.prompt_text, Axis::kSample);
  visitor("response_text", data.response_text, Axis::kSample);
  visitor("label_text", data.label_text, Axis::kSample);
}

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

void add_versions(GroupWriter& writer, const Versions& versions) {
  const size_t count = versions.versions.size();
  writer.offsets("version_offsets", versions.offsets, count);
  writer.add("versions", DType::kI64, {count}, std::as_bytes(std::span(versions.versions)));
  if (!versions.starts) return;
  writer.expect_size(versions.starts->size(), count, "version_starts");
  writer.add("version_starts", DType::kU32, {count}, std::as_bytes(std::span(*versions.starts)));
}

void add_calls(GroupWriter& writer, const Calls& calls) {
  const size_t count = calls.size();
  writer.offsets("call_offsets", calls.offsets, count);
  const auto add = [&](const char* name, const auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    writer.expect_size(values.size(), count, name);
    writer.add(name, dtype_for<T>(), {count}, std::as_bytes(std::span(values)));
  };
  add("call_first", calls.first);
  add("call_length", calls.length);
  if (calls.finish) add("call_finish", *calls.finish);
  if (calls.truncated) add("call_truncated", *calls.truncated);
  if (calls.version) add("call_version", *calls.version);
  if (calls.seed) add("call_seed", *calls.seed);
  if (!calls.numbers) return;
  writer.expect(count > 0, "call_numbers", "there is no call that they are of");
  writer.named("call_numbers", *calls.numbers, count);
}

/// What is said of the experts beside their numbers.
void add_routes(GroupWriter& writer, const Experts& experts, size_t tokens) {
  const auto add = [&](const char* name, const auto& values, std::vector<uint64_t> shape) {
    if (!values) return;
    writer.expect(
        elements_of(shape) == values->size(), name,
        "there are " + std::to_string(values->size()) + " values, not one for each expert");
    using T = typename std::decay_t<decltype(*values)>::value_type;
    writer.add(name, dtype_for<T>(), std::move(shape), std::as_bytes(std::span(*values)));
  };
  add("expert_layers", experts.layer_ids, {experts.layers});
  add("expert_gates", experts.gates, {tokens, experts.layers, experts.slots});
  add("expert_recorded", experts.recorded, {tokens});
}

/// Stored in the narrowest type that holds them.
void add_experts(GroupWriter& writer, const Experts& experts, size_t tokens) {
  const std::vector<uint64_t> shape = {tokens, experts.layers, experts.slots};
  writer.expect(elements_of(shape) == experts.experts.size(), "experts",
                "there are " + std::to_string(experts.experts.size()) + " values, expected " +
                    std::to_string(tokens) + " * " + std::to_string(experts.layers) + " * " +
                    std::to_string(experts.slots));
  const bool wide = std::any_of(experts.experts.begin(), experts.experts.end(),
                                [](uint16_t expert) { return expert > UINT8_MAX; });
  add_routes(writer, experts, tokens);
  if (wide) {
    return writer.add("experts", DType::kU16, shape, std::as_bytes(std::span(experts.experts)));
  }
  std::vector<uint8_t> narrow(experts.experts.begin(), experts.experts.end());
  writer.add(dataset_of(writer.path("experts"), DType::kU8, shape, std::move(narrow)));
}

void read_versions(GroupReader& reader, RolloutData& data) {
  const StoredDataset* dataset = reader.find("versions");
  if (dataset == nullptr) return;
  Versions& versions = data.versions.emplace();
  versions.versions = reader.read<int64_t>(*dataset);
  versions.offsets = reader.offsets("version_offsets", data.size(), versions.versions.size());
  if (const StoredDataset* starts = reader.find("version_starts")) {
    versions.starts = reader.read<uint32_t>(*starts);
    reader.expect_size(versions.starts->size(), versions.versions.size(), "version_starts");
  }
}

void read_calls(GroupReader& reader, RolloutData& data) {
  const StoredDataset* first = reader.find("call_first");
  if (first == nullptr) return;
  Calls& calls = data.calls.emplace();
  calls.first = reader.read<uint32_t>(*first);
  const size_t count = calls.size();
  calls.offsets = reader.offsets("call_offsets", data.size(), count);
  const auto take = [&](const char* name, auto& values, bool needed) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    const StoredDataset* dataset = reader.find(name);
    if (dataset == nullptr && !needed) return false;
    reader.expect(dataset != nullptr, name, "it is missing");
    values = reader.read<T>(*dataset);
    reader.expect_size(values.size(), count, name);
    return true;
  };
  take("call_length", calls.length, true);
  if (!take("call_finish", calls.finish.emplace(), false)) calls.finish.reset();
  if (!take("call_truncated", calls.truncated.emplace(), false)) calls.truncated.reset();
  if (!take("call_version", calls.version.emplace(), false)) calls.version.reset();
  if (!take("call_seed", calls.seed.emplace(), false)) calls.seed.reset();
  if (count > 0) reader.named("call_numbers", calls.numbers, count);
}

void read_experts(GroupReader& reader, RolloutData& data) {
  const StoredDataset* dataset = reader.find("experts");
  if (dataset == nullptr) return;
  const bool shaped = dataset->shape.size() == 3 && dataset->shape[0] == data.tokens.size();
  reader.expect(shaped, "experts", "its shape is not [T, M, E]");
  Experts& experts = data.experts.emplace();
  experts.layers = dataset->shape[1];
  experts.slots = dataset->shape[2];
  if (dataset->dtype == DType::kU16) {
    experts.experts = reader.read<uint16_t>(*dataset);
  } else {
    const std::vector<uint8_t> narrow = reader.read<uint8_t>(*dataset);
    experts.experts.assign(narrow.begin(), narrow.end());
  }
  const auto take = [&](const char* name, auto& values, size_t size) {
    using T = typename std::decay_t<decltype(*values)>::value_type;
    const StoredDataset* stored = reader.find(name);
    if (stored == nullptr) return;
    values = reader.read<T>(*stored);
    reader.expect(values->size() == size, name, "its length does not agree with the experts");
  };
  take("expert_layers", experts.layer_ids, experts.layers);
  take("expert_gates", experts.gates, experts.experts.size());
  take("expert_recorded", experts.recorded, data.tokens.size());
}

std::vector<int32_t> read_tokens(GroupReader& reader) {
  const StoredDataset* dataset = reader.find("tokens");
  reader.expect(dataset != nullptr, "tokens", "it is missing");
  const auto expect_ids = [&](const auto& ids) {
    const bool fit =
        std::all_of(ids.begin(), ids.end(), [](int64_t id) { return id >= 0 && id <= INT32_MAX; });
    reader.expect(fit, "tokens", "a token is no token id");
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
  GroupWriter writer(group, data, {data->size(), data->tokens.size()});
  writer.offsets("offsets", data->offsets, data->tokens.size());
  writer("tokens", data->tokens, Axis::kToken);
  visit_rollout(*data, writer);
  if (const char* message = contradiction(*data)) throw Error(ErrorCode::kUsage, message, group);
  if (data->reward_components) {
    writer.expect(data->size() > 0, "reward_components", "there is no sample that they are of");
    writer.named("reward_components", *data->reward_components, data->size());
  }
  if (data->versions) add_versions(writer, *data->versions);
  if (data->calls) add_calls(writer, *data->calls);
  if (data->experts) add_experts(writer, *data->experts, data->tokens.size());
  return writer.finish();
}

namespace {

RolloutData read_fields(GroupReader reader) {
  RolloutData data;
  data.tokens = read_tokens(reader);
  const StoredDataset* ids = reader.find("sample_id");
  reader.expect(ids != nullptr && ids->shape.size() == 1, "sample_id", "it is missing");
  reader.set_extents({ids->shape[0], data.tokens.size()});
  data.offsets = reader.offsets("offsets", ids->shape[0], data.tokens.size());
  visit_rollout(data, reader);
  if (data.size() > 0) reader.named("reward_components", data.reward_components, data.size());
  read_versions(reader, data);
  read_calls(reader, data);
  read_experts(reader, data);
  const char* message = contradiction(data);
  reader.expect(message == nullptr, "sample_id", message);
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

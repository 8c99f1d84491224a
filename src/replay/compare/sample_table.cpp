#include "src/replay/compare/sample_table.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

namespace rlreplay::replay {
namespace {

using format::Column;
using format::RolloutData;
using format::Texts;
using format::TokenFloats;
using format::TrainData;
using Found = std::optional<FieldValues>;

template <class T>
std::span<const T> part(const std::vector<T>& values, uint64_t begin, uint64_t end) {
  return std::span<const T>(values).subspan(begin, end - begin);
}

template <class Data>
Found response(const Data& data, const std::optional<TokenFloats>& column, size_t row,
               uint64_t prompt) {
  if (!column || !column->has(row)) return std::nullopt;
  const uint64_t begin = data.offsets[row] + prompt;
  const uint64_t end = data.offsets[row + 1];
  if (column->is_wide()) return FieldValues{part(column->wide, begin, end), prompt};
  return FieldValues{part(column->narrow, begin, end), prompt};
}

template <class Data>
Found response(const Data& data, const std::optional<Column<uint8_t>>& column, size_t row,
               uint64_t prompt) {
  if (!column || !column->has(row)) return std::nullopt;
  return FieldValues{part(column->values, data.offsets[row] + prompt, data.offsets[row + 1]),
                     prompt};
}

template <class Data>
Found prompt_length(const Data& data, size_t row) {
  if (!data.prompt_length) return std::nullopt;
  return FieldValues{part(*data.prompt_length, row, row + 1), std::nullopt};
}

/// One value a sample.
template <class T>
Found single(const std::optional<Column<T>>& column, size_t row) {
  if (!column || !column->has(row)) return std::nullopt;
  return FieldValues{part(column->values, row, row + 1), std::nullopt};
}

Found text(const std::optional<Texts>& texts, size_t row) {
  if (!texts || !texts->has(row)) return std::nullopt;
  return FieldValues{texts->at(row), std::nullopt};
}

Found prompt_tokens(const RolloutData& data, size_t row) {
  if (!data.prompt_length) return std::nullopt;
  const uint64_t begin = data.offsets[row];
  return FieldValues{part(data.tokens, begin, begin + (*data.prompt_length)[row]), 0};
}

Found response_tokens(const RolloutData& data, size_t row, uint64_t prompt) {
  return FieldValues{part(data.tokens, data.offsets[row] + prompt, data.offsets[row + 1]), prompt};
}

Found versions(const RolloutData& data, size_t row) {
  if (!data.versions) return std::nullopt;
  const auto& offsets = data.versions->offsets;
  return FieldValues{part(data.versions->versions, offsets[row], offsets[row + 1]), std::nullopt};
}

Found version_starts(const RolloutData& data, size_t row) {
  if (!data.versions || !data.versions->starts) return std::nullopt;
  const auto& offsets = data.versions->offsets;
  return FieldValues{part(*data.versions->starts, offsets[row], offsets[row + 1]), std::nullopt};
}

/// A column of the calls of a sample, each of `width` numbers.
template <class T>
Found of_calls(const RolloutData& data, const std::vector<T>* values, size_t width, size_t row) {
  if (values == nullptr) return std::nullopt;
  const auto& offsets = data.calls->offsets;
  return FieldValues{part(*values, offsets[row] * width, offsets[row + 1] * width), std::nullopt};
}

template <class T>
Found of_calls(const RolloutData& data, std::optional<std::vector<T>> format::Calls::*field,
               size_t row) {
  if (!data.calls || !((*data.calls).*field)) return std::nullopt;
  return of_calls(data, &*((*data.calls).*field), 1, row);
}

Found call_finish(const RolloutData& data, size_t row) {
  if (!data.calls || !data.calls->finish) return std::nullopt;
  const auto& offsets = data.calls->offsets;
  const auto* codes = reinterpret_cast<const uint8_t*>(data.calls->finish->data());
  return FieldValues{
      std::span<const uint8_t>(codes + offsets[row], offsets[row + 1] - offsets[row]),
      std::nullopt};
}

Found call_numbers(const RolloutData& data, size_t row) {
  if (!data.calls || !data.calls->numbers) return std::nullopt;
  const auto& [names, values, presence] = *data.calls->numbers;
  auto found = of_calls(data, &values, names.size(), row);
  found->columns = &names;
  return found;
}

Found roles(const RolloutData& data, size_t row) {
  if (!data.roles || !data.roles->has(row)) return std::nullopt;
  return FieldValues{part(data.roles->values, data.offsets[row], data.offsets[row + 1]), 0};
}

Found finish(const RolloutData& data, size_t row) {
  if (!data.finish) return std::nullopt;
  const auto* codes = reinterpret_cast<const uint8_t*>(data.finish->data());
  return FieldValues{std::span<const uint8_t>(codes + row, 1), std::nullopt};
}

Found components(const RolloutData& data, size_t row) {
  if (!data.reward_components) return std::nullopt;
  const auto& [names, values, presence] = *data.reward_components;
  if (!format::is_present(presence, row)) return std::nullopt;
  return FieldValues{part(values, row * names.size(), (row + 1) * names.size()), std::nullopt,
                     &names};
}

Found experts(const RolloutData& data, size_t row) {
  if (!data.experts) return std::nullopt;
  const uint64_t size = data.experts->layers * data.experts->slots;
  return FieldValues{
      part(data.experts->experts, data.offsets[row] * size, data.offsets[row + 1] * size),
      std::nullopt};
}

Found expert_gates(const RolloutData& data, size_t row) {
  if (!data.experts || !data.experts->gates) return std::nullopt;
  const uint64_t size = data.experts->layers * data.experts->slots;
  return FieldValues{
      part(*data.experts->gates, data.offsets[row] * size, data.offsets[row + 1] * size),
      std::nullopt};
}

Found expert_layers(const RolloutData& data, size_t /*row*/) {
  if (!data.experts || !data.experts->layer_ids) return std::nullopt;
  return FieldValues{part(*data.experts->layer_ids, 0, data.experts->layers), std::nullopt};
}

Found expert_recorded(const RolloutData& data, size_t row) {
  if (!data.experts || !data.experts->recorded) return std::nullopt;
  return FieldValues{part(*data.experts->recorded, data.offsets[row], data.offsets[row + 1]), 0};
}

Found nucleus_sizes(const RolloutData& data, size_t row, uint64_t prompt) {
  if (!data.nucleus || !data.nucleus->has(row)) return std::nullopt;
  return FieldValues{part(data.nucleus->sizes, data.offsets[row] + prompt, data.offsets[row + 1]),
                     prompt};
}

Found nucleus(const RolloutData& data, size_t row) {
  if (!data.nucleus || !data.nucleus->has(row)) return std::nullopt;
  const auto& offsets = data.nucleus->offsets;
  return FieldValues{part(data.nucleus->ids, offsets[row], offsets[row + 1]), std::nullopt};
}

Found train_tokens(const TrainData& data, size_t row) {
  if (!data.tokens) return std::nullopt;
  return FieldValues{part(*data.tokens, data.offsets[row], data.offsets[row + 1]), 0};
}

Found token_weights(const TrainData& data, size_t row) {
  if (!data.token_weights) return std::nullopt;
  return FieldValues{part(*data.token_weights, data.offsets[row], data.offsets[row + 1]), 0};
}

/// The step's own count of each trajectory's unmasked tokens, by sample; nothing where a mask is
/// not there.
template <class Places>
std::shared_ptr<const std::vector<uint64_t>> counted_tokens(const Places& samples) {
  std::map<std::pair<bool, uint64_t>, uint64_t> counts;
  std::vector<std::pair<bool, uint64_t>> keys;
  for (const auto& places : samples) {
    const TrainData* masked = nullptr;
    size_t row = 0;
    std::pair<bool, uint64_t> key(false, places.front().data->sample_id[places.front().row]);
    for (const auto& place : places) {
      const auto& trajectory = place.data->trajectory_id;
      if (!key.first && trajectory && trajectory->has(place.row)) {
        key = {true, trajectory->values[place.row]};
      }
      if (masked != nullptr || !place.data->loss_mask || !place.data->loss_mask->has(place.row)) {
        continue;
      }
      masked = place.data;
      row = place.row;
    }
    if (masked == nullptr) return nullptr;
    const auto mask =
        part(masked->loss_mask->values, masked->offsets[row], masked->offsets[row + 1]);
    counts[key] += static_cast<uint64_t>(std::ranges::count(mask, uint8_t{1}));
    keys.push_back(key);
  }
  auto out = std::make_shared<std::vector<uint64_t>>();
  for (const auto& key : keys) out->push_back(counts.at(key));
  return out;
}

template <class T>
FieldValues::List list_of(std::span<const std::byte> bytes) {
  return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
}

}  // namespace

std::optional<FieldValues> values_of(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kU8:
    case DType::kBool:
      return FieldValues{list_of<uint8_t>(bytes), std::nullopt};
    case DType::kU16:
      return FieldValues{list_of<uint16_t>(bytes), std::nullopt};
    case DType::kI32:
      return FieldValues{list_of<int32_t>(bytes), std::nullopt};
    case DType::kU32:
      return FieldValues{list_of<uint32_t>(bytes), std::nullopt};
    case DType::kI64:
      return FieldValues{list_of<int64_t>(bytes), std::nullopt};
    case DType::kU64:
      return FieldValues{list_of<uint64_t>(bytes), std::nullopt};
    case DType::kF32:
      return FieldValues{list_of<float>(bytes), std::nullopt};
    case DType::kF64:
      return FieldValues{list_of<double>(bytes), std::nullopt};
    default:
      return std::nullopt;
  }
}

template <class Data>
struct SampleTable::Place {
  const Data* data;
  size_t row;
  uint64_t prompt;  // tokens of it, as any of the sample's places says
};

template <class Data>
auto SampleTable::add_rows(std::span<const Data> parts) -> std::shared_ptr<const Rows<Data>> {
  auto samples = std::make_shared<Rows<Data>>();
  for (const Data& data : parts) {
    for (size_t s = 0; s < data.size(); ++s) {
      const auto [at, fresh] = rows_.emplace(data.sample_id[s], samples->size());
      if (fresh) samples->emplace_back();
      (*samples)[at->second].push_back({&data, s, 0});
    }
  }
  for (auto& places : *samples) {
    uint64_t prompt = 0;
    for (const auto& [data, row, unused] : places) {
      if (prompt == 0 && data->prompt_length) prompt = (*data->prompt_length)[row];
    }
    for (auto& place : places) {
      const auto& offsets = place.data->offsets;
      place.prompt = std::min(prompt, offsets[place.row + 1] - offsets[place.row]);
    }
  }
  return samples;
}

/// The values of the first place that has them.
template <class Data, class Take>
auto SampleTable::first_of(std::shared_ptr<const Rows<Data>> samples, Take take) {
  return [samples = std::move(samples), take](size_t row) {
    for (const Place<Data>& at : (*samples)[row]) {
      Found found;
      if constexpr (std::is_invocable_v<Take, const Data&, size_t, uint64_t>) {
        found = take(*at.data, at.row, at.prompt);
      } else {
        found = take(*at.data, at.row);
      }
      if (found) return found;
    }
    return Found();
  };
}

SampleTable SampleTable::of(const RolloutData& data) { return of(std::span(&data, 1)); }

SampleTable SampleTable::of(std::span<const RolloutData> parts) {
  SampleTable table;
  const auto samples = table.add_rows(parts);
  const auto add = [&](const char* name, auto take) {
    table.fields_.push_back({name, first_of<RolloutData>(samples, take), {}});
  };
  using D = const RolloutData&;
  add("rollout/prompt_length", prompt_length<RolloutData>);
  add("rollout/prompt", prompt_tokens);
  add("rollout/prompt_text", [](D d, size_t s) { return text(d.prompt_text, s); });
  add("rollout/label_text", [](D d, size_t s) { return text(d.label_text, s); });
  add("rollout/group_id", [](D d, size_t s) { return single(d.group_id, s); });
  add("rollout/trajectory_id", [](D d, size_t s) { return single(d.trajectory_id, s); });
  add("rollout/versions", versions);
  add("rollout/version_starts", version_starts);
  const auto with_calls = [](D d) { return d.calls.has_value(); };
  add("rollout/call_first",
      [=](D d, size_t s) { return of_calls(d, with_calls(d) ? &d.calls->first : nullptr, 1, s); });
  add("rollout/call_length",
      [=](D d, size_t s) { return of_calls(d, with_calls(d) ? &d.calls->length : nullptr, 1, s); });
  add("rollout/call_version",
      [](D d, size_t s) { return of_calls(d, &format::Calls::version, s); });
  add("rollout/call_seed", [](D d, size_t s) { return of_calls(d, &format::Calls::seed, s); });
  add("rollout/call_numbers", call_numbers);
  add("rollout/roles", roles);
  add("rollout/tokens", response_tokens);
  add("rollout/nucleus_size", nucleus_sizes);
  add("rollout/nucleus", nucleus);
  add("rollout/log_probs",
      [](D d, size_t s, uint64_t prompt) { return response(d, d.log_probs, s, prompt); });
  add("rollout/expert_layers", expert_layers);
  add("rollout/expert_recorded", expert_recorded);
  add("rollout/experts", experts);
  add("rollout/expert_gates", expert_gates);
  add("rollout/call_finish", call_finish);
  add("rollout/call_truncated",
      [](D d, size_t s) { return of_calls(d, &format::Calls::truncated, s); });
  add("rollout/finish", finish);
  add("rollout/response_text", [](D d, size_t s) { return text(d.response_text, s); });
  add("rollout/rewards", [](D d, size_t s) { return single(d.rewards, s); });
  add("rollout/reward_components", components);
  add("rollout/loss_mask",
      [](D d, size_t s, uint64_t prompt) { return response(d, d.loss_mask, s, prompt); });
  add("rollout/removed", [](D d, size_t s) { return single(d.removed, s); });
  table.fields_.back().implied = [](size_t) {
    static constexpr uint8_t kNotRemoved = 0;
    return Found(FieldValues{std::span<const uint8_t>(&kNotRemoved, 1), std::nullopt});
  };
  return table;
}

SampleTable SampleTable::of(std::span<const TrainData> ranks) {
  SampleTable table;
  const auto samples = table.add_rows(ranks);
  using D = const TrainData&;
  const auto add = [&](std::string_view name, auto take) {
    table.fields_.push_back({"train/" + std::string(name), first_of<TrainData>(samples, take), {}});
  };
  const auto column = [&](std::string_view name) {
    for (const format::TokenColumnField& field : format::kTokenColumnFields) {
      if (field.name != name) continue;
      add(name, [member = field.column](D data, size_t s, uint64_t prompt) {
        return response(data, data.*member, s, prompt);
      });
    }
  };
  add("prompt_length", prompt_length<TrainData>);
  add("tokens", train_tokens);
  add("loss_mask",
      [](D d, size_t s, uint64_t prompt) { return response(d, d.loss_mask, s, prompt); });
  add("rewards", [](D d, size_t s) { return single(d.rewards, s); });
  add("trajectory_id", [](D d, size_t s) { return single(d.trajectory_id, s); });
  add("trajectory_tokens", [](D d, size_t s) { return single(d.trajectory_tokens, s); });
  if (auto counted = counted_tokens(*samples)) {
    table.fields_.back().implied = [counted = std::move(counted)](size_t row) {
      return Found(FieldValues{part(*counted, row, row + 1), std::nullopt});
    };
  }
  for (const char* name :
       {"rollout_log_probs", "old_log_probs", "ref_log_probs", "teacher_log_probs", "ref_entropy",
        "values", "current_values", "kl", "reverse_kl", "advantages", "returns"}) {
    column(name);
  }
  add("token_weights", token_weights);
  for (const char* name : {"log_probs", "entropy", "policy_kl", "policy_loss"}) column(name);
  return table;
}

}  // namespace rlreplay::replay

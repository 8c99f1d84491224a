#include "src/replay/compare/sample_table.h"

#include <memory>

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
uint64_t prompt_of(const Data& data, size_t row) {
  return data.prompt_length ? (*data.prompt_length)[row] : 0;
}

template <class Data>
Found response(const Data& data, const std::optional<TokenFloats>& column, size_t row) {
  if (!column || !column->has(row)) return std::nullopt;
  const uint64_t prompt = prompt_of(data, row);
  const uint64_t begin = data.offsets[row] + prompt;
  const uint64_t end = data.offsets[row + 1];
  if (column->is_wide()) return FieldValues{part(column->wide, begin, end), prompt};
  return FieldValues{part(column->narrow, begin, end), prompt};
}

template <class Data>
Found response(const Data& data, const std::optional<Column<uint8_t>>& column, size_t row) {
  if (!column || !column->has(row)) return std::nullopt;
  const uint64_t prompt = prompt_of(data, row);
  return FieldValues{part(column->values, data.offsets[row] + prompt, data.offsets[row + 1]),
                     prompt};
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

Found response_tokens(const RolloutData& data, size_t row) {
  const uint64_t prompt = prompt_of(data, row);
  return FieldValues{part(data.tokens, data.offsets[row] + prompt, data.offsets[row + 1]), prompt};
}

Found versions(const RolloutData& data, size_t row) {
  if (!data.versions) return std::nullopt;
  const auto& offsets = data.versions->offsets;
  return FieldValues{part(data.versions->versions, offsets[row], offsets[row + 1]), std::nullopt};
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
  return FieldValues{part(values, row * names.size(), (row + 1) * names.size()), std::nullopt};
}

Found experts(const RolloutData& data, size_t row) {
  if (!data.experts) return std::nullopt;
  const uint64_t size = data.experts->layers * data.experts->slots;
  return FieldValues{
      part(data.experts->experts, data.offsets[row] * size, data.offsets[row + 1] * size),
      std::nullopt};
}

Found nucleus_sizes(const RolloutData& data, size_t row) {
  if (!data.nucleus || !data.nucleus->has(row)) return std::nullopt;
  const uint64_t prompt = prompt_of(data, row);
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

}  // namespace

template <class Data>
struct SampleTable::Place {
  const Data* data;
  size_t row;
};

template <class Data>
std::shared_ptr<std::vector<SampleTable::Place<Data>>> SampleTable::add_rows(
    std::span<const Data> parts) {
  auto places = std::make_shared<std::vector<Place<Data>>>();
  for (const Data& data : parts) {
    for (size_t s = 0; s < data.size(); ++s) {
      if (rows_.emplace(data.sample_id[s], places->size()).second) places->push_back({&data, s});
    }
  }
  return places;
}

SampleTable SampleTable::of(const RolloutData& data) { return of(std::span(&data, 1)); }

SampleTable SampleTable::of(std::span<const RolloutData> parts) {
  SampleTable table;
  const auto places = table.add_rows(parts);
  const auto add = [&](const char* name, auto take) {
    table.fields_.push_back({name, [places, take](size_t row) {
                               const auto& place = (*places)[row];
                               return take(*place.data, place.row);
                             }});
  };
  using D = const RolloutData&;
  add("rollout/prompt", prompt_tokens);
  add("rollout/prompt_text", [](D d, size_t s) { return text(d.prompt_text, s); });
  add("rollout/label_text", [](D d, size_t s) { return text(d.label_text, s); });
  add("rollout/group_id", [](D d, size_t s) { return single(d.group_id, s); });
  add("rollout/trajectory_id", [](D d, size_t s) { return single(d.trajectory_id, s); });
  add("rollout/versions", versions);
  add("rollout/tokens", response_tokens);
  add("rollout/nucleus_size", nucleus_sizes);
  add("rollout/nucleus", nucleus);
  add("rollout/log_probs", [](D d, size_t s) { return response(d, d.log_probs, s); });
  add("rollout/experts", experts);
  add("rollout/finish", finish);
  add("rollout/response_text", [](D d, size_t s) { return text(d.response_text, s); });
  add("rollout/rewards", [](D d, size_t s) { return single(d.rewards, s); });
  add("rollout/reward_components", components);
  add("rollout/loss_mask", [](D d, size_t s) { return response(d, d.loss_mask, s); });
  return table;
}

SampleTable SampleTable::of(std::span<const TrainData> ranks) {
  SampleTable table;
  const auto places = table.add_rows(ranks);
  const auto add = [&](std::string_view name, auto take) {
    table.fields_.push_back({"train/" + std::string(name), [places, take](size_t row) {
                               const auto& place = (*places)[row];
                               return take(*place.data, place.row);
                             }});
  };
  const auto column = [&](std::string_view name) {
    for (const format::TokenColumnField& field : format::kTokenColumnFields) {
      if (field.name != name) continue;
      add(name, [member = field.column](const TrainData& data, size_t s) {
        return response(data, data.*member, s);
      });
    }
  };
  add("tokens", train_tokens);
  add("loss_mask", [](const TrainData& d, size_t s) { return response(d, d.loss_mask, s); });
  add("rewards", [](const TrainData& d, size_t s) { return single(d.rewards, s); });
  add("trajectory_id", [](const TrainData& d, size_t s) { return single(d.trajectory_id, s); });
  add("trajectory_tokens",
      [](const TrainData& d, size_t s) { return single(d.trajectory_tokens, s); });
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

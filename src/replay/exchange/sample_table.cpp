#include "src/replay/exchange/sample_table.h"

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

Found train_tokens(const TrainData& data, size_t row) {
  if (!data.tokens) return std::nullopt;
  return FieldValues{part(*data.tokens, data.offsets[row], data.offsets[row + 1]), 0};
}

Found token_weights(const TrainData& data, size_t row) {
  if (!data.token_weights) return std::nullopt;
  return FieldValues{part(*data.token_weights, data.offsets[row], data.offsets[row + 1]), 0};
}

}  // namespace

SampleTable SampleTable::of(const RolloutData& data) {
  SampleTable table;
  for (size_t s = 0; s < data.size(); ++s) table.rows_.emplace(data.sample_id[s], s);
  const RolloutData* d = &data;
  table.fields_ = {
      {"rollout/prompt", [d](size_t s) { return prompt_tokens(*d, s); }},
      {"rollout/prompt_text", [d](size_t s) { return text(d->prompt_text, s); }},
      {"rollout/label_text", [d](size_t s) { return text(d->label_text, s); }},
      {"rollout/group_id", [d](size_t s) { return single(d->group_id, s); }},
      {"rollout/versions", [d](size_t s) { return versions(*d, s); }},
      {"rollout/tokens", [d](size_t s) { return response_tokens(*d, s); }},
      {"rollout/log_probs", [d](size_t s) { return response(*d, d->log_probs, s); }},
      {"rollout/experts", [d](size_t s) { return experts(*d, s); }},
      {"rollout/finish", [d](size_t s) { return finish(*d, s); }},
      {"rollout/response_text", [d](size_t s) { return text(d->response_text, s); }},
      {"rollout/rewards", [d](size_t s) { return single(d->rewards, s); }},
      {"rollout/reward_components", [d](size_t s) { return components(*d, s); }},
      {"rollout/loss_mask", [d](size_t s) { return response(*d, d->loss_mask, s); }},
  };
  return table;
}

SampleTable SampleTable::of(std::span<const TrainData> ranks) {
  struct Place {
    const TrainData* data;
    size_t row;
  };
  SampleTable table;
  auto places = std::make_shared<std::vector<Place>>();
  for (const TrainData& data : ranks) {
    for (size_t s = 0; s < data.size(); ++s) {
      if (table.rows_.emplace(data.sample_id[s], places->size()).second) {
        places->push_back({&data, s});
      }
    }
  }
  const auto add = [&](std::string_view name, auto take) {
    table.fields_.push_back({"train/" + std::string(name), [places, take](size_t row) {
                               const Place& place = (*places)[row];
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
  for (const char* name :
       {"rollout_log_probs", "old_log_probs", "ref_log_probs", "teacher_log_probs", "ref_entropy",
        "values", "kl", "reverse_kl", "advantages", "returns"}) {
    column(name);
  }
  add("token_weights", token_weights);
  for (const char* name : {"log_probs", "entropy", "policy_kl", "policy_loss"}) column(name);
  return table;
}

}  // namespace rlreplay::replay

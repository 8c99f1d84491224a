#include "src/engine/step_events.h"

#include <vector>

namespace rlreplay::engine {
namespace {

/// Shows one field of every item as a scalar per token.
template <class Item, class T>
void emit_field(const Runtime& runtime, Op op, std::string_view tensor, std::span<Item> items,
                T Item::*field, const RowCoordinates& coordinates) {
  if (runtime.sink == nullptr) return;
  std::vector<T> values;
  for (const Item& item : items) values.push_back(item.*field);
  const kernels::Matrix<T> rows(values.data(), static_cast<int64_t>(values.size()), 1);
  runtime.emit({Phase::kObjective, -1, op, tensor}, rows, coordinates);
  for (size_t i = 0; i < items.size(); ++i) items[i].*field = values[i];
}

}  // namespace

void emit_targets(const Runtime& runtime, std::span<TokenInput> tokens, bool reference,
                  bool rollout_log_probs, const RowCoordinates& coordinates) {
  const auto emit = [&](std::string_view tensor, auto field) {
    emit_field(runtime, Op::kTargets, tensor, tokens, field, coordinates);
  };
  emit("advantage", &TokenInput::advantage);
  emit("old_log_prob", &TokenInput::old_log_prob);
  if (reference) emit("ref_log_prob", &TokenInput::ref_log_prob);
  if (rollout_log_probs) emit("rollout_log_prob", &TokenInput::rollout_log_prob);
  emit("weight", &TokenInput::weight);
}

void emit_terms(const Runtime& runtime, std::span<TokenTerms> terms,
                const RowCoordinates& coordinates) {
  const auto emit = [&](std::string_view tensor, auto field) {
    emit_field(runtime, Op::kTerms, tensor, terms, field, coordinates);
  };
  emit("ratio", &TokenTerms::ratio);
  emit("policy", &TokenTerms::policy);
  emit("kl", &TokenTerms::kl);
  emit("total", &TokenTerms::total);
  emit("c", &TokenTerms::c);
  emit("ce", &TokenTerms::ce);
}

void emit_losses(const Runtime& runtime, Losses& losses) {
  const auto emit = [&](std::string_view tensor, double& value) {
    emit_scalar(runtime, Phase::kObjective, Op::kLoss, tensor, value);
  };
  emit("policy", losses.policy);
  emit("entropy", losses.entropy);
  emit("kl", losses.kl);
  emit("total", losses.total);
  emit("clip_fraction", losses.clip_fraction);
}

void emit_gradients(const Runtime& runtime, const ParameterTable& parameters,
                    Gradients& gradients) {
  for (size_t i = 0; i < parameters.list.size(); ++i) {
    const Parameter& p = parameters.list[i];
    runtime.emit_whole({Phase::kReduce, p.layer, Op::kGradient, p.name},
                       gradients.sum(static_cast<int>(i)));
  }
}

}  // namespace rlreplay::engine

#include "src/replay/doctor/known_tensors.h"

#include <algorithm>

#include "src/replay/doctor/weight_names.h"

namespace rlreplay::replay {
namespace {

bool has_hub_names(const WeightFiles& weights) {
  return std::ranges::any_of(weights.tensors, [](const WeightTensor& tensor) {
    const WeightName name = split_name(tensor.name());
    return name.stack == "model.layers" && name.role == "self_attn.q_proj.weight";
  });
}

}  // namespace

std::optional<std::vector<foreign::ExpectedTensor>> known_tensors(const WeightFiles& weights) {
  if (!weights.config || !has_hub_names(weights)) return std::nullopt;
  try {
    return foreign::expected_tensors(
        foreign::parse_model_config(weights.config->root().dump(), weights.config->where()));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnsupported) return std::nullopt;
    throw;
  }
}

}  // namespace rlreplay::replay

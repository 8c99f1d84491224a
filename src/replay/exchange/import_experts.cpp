#include "src/replay/exchange/import_experts.h"

#include <span>

#include "src/replay/exchange/reward_components.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Value;
using format::Experts;
using format::RolloutData;

uint64_t tokens_of(const RolloutData& data, size_t row) {
  return data.offsets[row + 1] - data.offsets[row];
}

/// Whether there is about as much in the file as the column takes, zeros of others included.
bool are_worth(std::span<const std::optional<Numbers>> routes, const Experts& made,
               uint64_t tokens) {
  uint64_t given = 0, size = 0, taken = 0;
  for (const auto& numbers : routes) given += numbers ? numbers->size() : 0;
  const bool fits = !__builtin_mul_overflow(made.layers, made.slots, &size) &&
                    !__builtin_mul_overflow(size, tokens, &taken);
  return fits && taken / 8 <= given + (1 << 20);
}

/// The routes of a sample where they have the form, and `made` of the first one's layers.
std::optional<Numbers> placed(const foreign::Tree& tree, Value value, uint64_t tokens,
                              std::optional<Experts>& made) {
  const std::vector<int64_t>* shape = nullptr;
  if (value.kind == Kind::kTensor) shape = &tree.tensor(value).shape;
  if (value.kind == Kind::kArray) shape = &tree.array(value).shape;
  // A row for each token that went through the model: all but the last.
  if (shape == nullptr || shape->size() != 3 ||
      shape->front() + 1 != static_cast<int64_t>(tokens)) {
    return std::nullopt;
  }
  const auto layers = static_cast<uint64_t>((*shape)[1]);
  const auto slots = static_cast<uint64_t>((*shape)[2]);
  if (made && (made->layers != layers || made->slots != slots)) return std::nullopt;
  auto numbers = Numbers::of(tree, value);
  if (!numbers || !numbers->is_integer()) return std::nullopt;
  const auto is_none = [](auto id) { return id < 0 || id > UINT16_MAX; };
  if (numbers->find(is_none)) return std::nullopt;
  if (!made) made.emplace(Experts{layers, slots, {}});
  return numbers;
}

}  // namespace

const Value* RolloutSamples::field(size_t row, std::string_view key) const {
  const Value* value = tree.find(list[order[row]], key);
  return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
}

const Value* RolloutSamples::own(size_t row, std::string_view key) const {
  return own_value(tree, list[order[row]], key);
}

std::optional<Numbers> RolloutSamples::own_numbers(size_t row, std::string_view key) const {
  const Value* value = own(row, key);
  if (value == nullptr) return std::nullopt;
  const auto numbers = Numbers::of(tree, *value);
  return numbers && numbers->is_integer() ? numbers : std::nullopt;
}

std::optional<Experts> read_own_experts(const RolloutSamples& from,
                                        const std::vector<uint64_t>& ids, uint64_t tokens) {
  Experts made;
  uint64_t wanted = 0;
  for (size_t row = 0; row < from.order.size(); ++row) {
    const auto shape = from.own_numbers(row, "experts_shape");
    const auto experts = from.own_numbers(row, "experts");
    if (!shape || !experts || shape->size() != 2) return std::nullopt;
    made.layers = checked<uint32_t>("experts_shape", shape->integer(0), ids[row]);
    made.slots = checked<uint32_t>("experts_shape", shape->integer(1), ids[row]);
    for (size_t e = 0; e < experts->size(); ++e) {
      made.experts.push_back(checked<uint16_t>("experts", experts->integer(e), ids[row]));
    }
    if (!__builtin_mul_overflow(made.layers * made.slots, tokens, &wanted)) continue;
    throw Error(
        ErrorCode::kCorrupt,
        "experts_shape says more experts than there can be: " + std::to_string(made.layers) +
            " layers of " + std::to_string(made.slots) + " slots a token",
        "sample " + std::to_string(ids[row]));
  }
  if (from.order.empty() || made.experts.size() != wanted) return std::nullopt;
  return made;
}

Routes read_routes(const RolloutSamples& from, const RolloutData& data) {
  std::vector<std::optional<Numbers>> routes;
  std::optional<Experts> made;
  for (size_t row = 0; row < from.order.size(); ++row) {
    const Value* value = from.field(row, "rollout_routed_experts");
    routes.push_back(value == nullptr ? std::nullopt
                                      : placed(from.tree, *value, tokens_of(data, row), made));
    if (value == nullptr || routes.back()) continue;
    return {{},
            "rollout_routed_experts of sample " + std::to_string(data.sample_id[row]) +
                " are no integers from 0 to 65535 of all tokens but the last, by layer and slot, "
                "as many as of other samples: they are kept in the file alone"};
  }
  if (!made) return {};
  if (!are_worth(routes, *made, data.offsets.back())) {
    return {{},
            "rollout_routed_experts is there of too few of the tokens: it is kept in the file "
            "alone"};
  }
  const uint64_t size = made->layers * made->slots;
  made->recorded.emplace();
  for (size_t row = 0; row < from.order.size(); ++row) {
    const uint64_t tokens = tokens_of(data, row);
    const uint64_t rows = routes[row] && tokens > 0 ? tokens - 1 : 0;
    for (uint64_t e = 0; e < rows * size; ++e) {
      made->experts.push_back(static_cast<uint16_t>(routes[row]->integer(e)));
    }
    made->experts.resize(data.offsets[row + 1] * size);
    made->recorded->resize(data.offsets[row] + rows, 1);
    made->recorded->resize(data.offsets[row + 1]);
  }
  return {std::move(made), {}};
}

}  // namespace rlreplay::replay

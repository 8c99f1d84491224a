#include "src/replay/doctor/weight_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "src/base/number_text.h"

namespace rlreplay::replay {
namespace {

constexpr int64_t kMostLayers = 100'000;

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    out.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return out;
}

/// A number as writers of weights count: without sign and leading zero. All else belongs to a name.
std::optional<int64_t> number_of(std::string_view part) {
  const auto number = parse_number<int64_t>(part);
  if (!number || *number < 0 || *number >= kMostLayers || part.starts_with('-')) return {};
  if (part.size() > 1 && part.front() == '0') return {};
  return number;
}

bool counts_layers(std::string_view part) {
  static constexpr auto kWords = std::to_array<std::string_view>({"layers", "h", "blocks"});
  return std::ranges::find(kWords, part) != kWords.end();
}

bool counts_experts(std::string_view part) { return part == "experts" || part == "local_experts"; }

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) {
    return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
  });
}

}  // namespace

WeightName split_name(std::string_view name) {
  WeightName out;
  const std::vector<std::string_view> parts = parts_of(name);
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string dot = out.role.empty() ? "" : ".";
    const std::optional<int64_t> number = i > 0 ? number_of(parts[i]) : std::nullopt;
    if (number && out.layer < 0 && counts_layers(parts[i - 1])) {
      out.layer = *number;
      out.stack = out.role;
      out.role.clear();
    } else if (number && out.expert < 0 && counts_experts(parts[i - 1])) {
      out.expert = *number;
      out.role += dot + "*";
    } else {
      out.role += dot + std::string(parts[i]);
    }
  }
  return out;
}

std::string joined_name(std::string_view stack, int64_t layer, std::string_view role,
                        int64_t expert) {
  std::string out = layer < 0 ? "" : std::string(stack) + "." + std::to_string(layer) + ".";
  const size_t star = expert < 0 ? role.npos : role.find('*');
  if (star == role.npos) return out + std::string(role);
  return out + std::string(role.substr(0, star)) + std::to_string(expert) +
         std::string(role.substr(star + 1));
}

bool is_text_stack(std::string_view stack) {
  return std::ranges::none_of(
      std::to_array<std::string_view>({"vision", "visual", "audio", "encoder", "mtp"}),
      [&](std::string_view word) { return stack.find(word) != stack.npos; });
}

bool is_embedding(std::string_view name) {
  return ends_with_any(name, {"embed_tokens.weight", "word_embeddings.weight", "wte.weight",
                              "tok_embeddings.weight"});
}

bool is_head(std::string_view name) {
  return ends_with_any(name, {"lm_head.weight", "output_layer.weight"});
}

bool is_router(std::string_view name) {
  return ends_with_any(name, {"mlp.gate.weight", "mlp.router.weight",
                              "block_sparse_moe.gate.weight", "feed_forward.router.weight"});
}

}  // namespace rlreplay::replay

#include "src/replay/doctor/hub_tensors.h"

#include <array>
#include <string_view>
#include <utility>

#include "src/base/dtype.h"
#include "src/replay/doctor/weight_names.h"

namespace rlreplay::replay {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

/// Megatron's names outside of layers, then in them, and the hub's.
constexpr auto kOutside = std::to_array<Names>({
    {"embedding.word_embeddings.weight", "model.embed_tokens.weight"},
    {"output_layer.weight", "lm_head.weight"},
    {"decoder.final_layernorm.weight", "model.norm.weight"},
});
constexpr auto kInside = std::to_array<Names>({
    {"self_attention.linear_proj.weight", "self_attn.o_proj.weight"},
    {"self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"},
    {"self_attention.q_layernorm.weight", "self_attn.q_norm.weight"},
    {"self_attention.k_layernorm.weight", "self_attn.k_norm.weight"},
    {"mlp.linear_fc2.weight", "mlp.down_proj.weight"},
    {"mlp.linear_fc1.layer_norm_weight", "post_attention_layernorm.weight"},
    {"pre_mlp_layernorm.weight", "post_attention_layernorm.weight"},
    {"mlp.router.weight", "mlp.gate.weight"},
    {"mlp.experts.local_experts.*.linear_fc2.weight", "mlp.experts.*.down_proj.weight"},
});

/// Products fused of gate and up, and what both are called then with `?` in their places.
constexpr auto kPairs = std::to_array<Names>({
    {"mlp.linear_fc1.weight", "mlp.?_proj.weight"},
    {"mlp.gate_up_proj.weight", "mlp.?_proj.weight"},
    {"mlp.experts.local_experts.*.linear_fc1.weight", "mlp.experts.*.?_proj.weight"},
});

std::string_view renamed(std::string_view name, std::span<const Names> table) {
  for (const auto& [from, to] : table) {
    if (name == from) return to;
  }
  return name;
}

/// Puts one tensor after the other under the names of the hub. `whole_`, `place_` and `expert_` are
/// those of the tensor that is being added.
class HubNames {
 public:
  HubNames(const HeadSizes& heads, std::map<std::string, HubTensor>& out)
      : heads_(heads), out_(out) {}

  void add(const WeightTensor& tensor) {
    whole_ = HubTensor{&tensor, {}, 1, 1, false};
    const std::vector<int64_t>& shape = tensor.stored->shape;
    for (size_t i = 0; i < shape.size(); ++i)
      (i + 1 < shape.size() || i == 0 ? whole_.rows : whole_.columns) *= shape[i];
    std::string_view name = tensor.name();
    while (name.starts_with("module.")) name.remove_prefix(7);
    const WeightName parts = split_name(name);
    if (parts.layer < 0) return put(std::string(renamed(name, kOutside)), {{0, whole_.rows}});
    place_ = (parts.stack == "decoder.layers" ? "model.layers" : parts.stack) + "." +
             std::to_string(parts.layer) + ".";
    expert_ = parts.expert;
    if (!split(parts.role)) put_role(renamed(parts.role, kInside), {{0, whole_.rows}});
  }

 private:
  void put(std::string name, std::vector<RowRun> runs, bool fused = false) {
    HubTensor part = whole_;
    part.rows = 0;
    for (const RowRun& run : runs) part.rows += run.count;
    part.runs = std::move(runs);
    part.fused = fused;
    out_.emplace(std::move(name), std::move(part));
  }

  void put_role(std::string_view role, std::vector<RowRun> runs, bool fused = false) {
    put(place_ + joined_name("", -1, role, expert_), std::move(runs), fused);
  }

  /// Takes a fused product apart, where it is one whose parts are known.
  [[nodiscard]] bool split(std::string_view role) {
    for (const auto& [from, to] : kPairs) {
      if (role == from && whole_.rows % 2 == 0) return split_pair(to), true;
    }
    for (const std::string_view end : {"weight", "bias"}) {
      const bool grouped = role == "self_attention.linear_qkv." + std::string(end);
      if (!grouped && role != "self_attn.qkv_proj." + std::string(end)) continue;
      const int64_t rows = (heads_.heads + 2 * heads_.groups) * heads_.size;
      if (!heads_.known() || rows != whole_.rows || heads_.heads % heads_.groups != 0) return false;
      grouped ? split_groups(end) : split_parts(end);
      return true;
    }
    return false;
  }

  void split_pair(std::string_view to) {
    const int64_t half = whole_.rows / 2;
    int64_t begin = 0;
    for (const std::string_view word : {"gate", "up"}) {
      std::string role(to);
      role.replace(role.find('?'), 1, word);
      put_role(role, {{begin, half}}, true);
      begin += half;
    }
  }

  /// vLLM's order: all of q, of k, of v.
  void split_parts(std::string_view end) {
    const int64_t q = heads_.heads * heads_.size, kv = heads_.groups * heads_.size;
    put_projection("q", end, {{0, q}});
    put_projection("k", end, {{q, kv}});
    put_projection("v", end, {{q + kv, kv}});
  }

  /// Megatron's order: of each group its queries, its key, its value.
  void split_groups(std::string_view end) {
    const int64_t queries = heads_.heads / heads_.groups * heads_.size;
    std::vector<RowRun> q, k, v;
    int64_t at = 0;
    for (int64_t i = 0; i < heads_.groups; ++i) {
      q.push_back({at, queries});
      k.push_back({at + queries, heads_.size});
      v.push_back({at + queries + heads_.size, heads_.size});
      at += queries + 2 * heads_.size;
    }
    put_projection("q", end, std::move(q));
    put_projection("k", end, std::move(k));
    put_projection("v", end, std::move(v));
  }

  void put_projection(const std::string& letter, std::string_view end, std::vector<RowRun> runs) {
    put_role("self_attn." + letter + "_proj." + std::string(end), std::move(runs), true);
  }

  const HeadSizes& heads_;
  std::map<std::string, HubTensor>& out_;
  HubTensor whole_;
  std::string place_;
  int64_t expert_ = -1;
};

}  // namespace

foreign::Bytes HubTensor::row(int64_t index) const {
  for (const RowRun& run : runs) {
    if (index < run.count) {
      const size_t size = static_cast<size_t>(columns) * size_of(from->stored->dtype);
      return from->stored->data.subspan(static_cast<size_t>(run.begin + index) * size, size);
    }
    index -= run.count;
  }
  throw Error(ErrorCode::kInternal, "a row beyond a tensor's end", from->name());
}

HeadSizes head_sizes(const WeightFiles& weights) {
  HeadSizes out;
  out.heads = weights.size_of_model("num_attention_heads").value_or(0);
  out.groups = weights.size_of_model("num_key_value_heads").value_or(out.heads);
  const int64_t hidden = weights.size_of_model("hidden_size").value_or(0);
  out.size = weights.size_of_model("head_dim").value_or(out.heads > 0 ? hidden / out.heads : 0);
  constexpr int64_t kMost = int64_t{1} << 20;
  const bool sound = out.heads < kMost && out.groups < kMost && out.size < kMost;
  return sound ? out : HeadSizes{};
}

std::map<std::string, HubTensor> hub_tensors(const WeightFiles& weights, const HeadSizes& heads) {
  std::map<std::string, HubTensor> out;
  HubNames names(heads, out);
  for (const WeightTensor& tensor : weights.tensors) names.add(tensor);
  return out;
}

}  // namespace rlreplay::replay

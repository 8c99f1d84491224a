#include "src/base/parameters.h"

namespace rlreplay {
namespace {

class Builder {
 public:
  explicit Builder(ParameterTable& table) : table_(table) {}

  /// Parameters that follow belong to this layer, -1 for none.
  void set_layer(int64_t layer) { layer_ = static_cast<int>(layer); }

  int add(std::string name, Role role, int64_t rows, int64_t cols, int64_t heads = 1) {
    table_.list.push_back({std::move(name), layer_, role, rows, cols, table_.elements, heads});
    table_.elements += rows * cols;
    return static_cast<int>(table_.list.size()) - 1;
  }

 private:
  ParameterTable& table_;
  int layer_ = -1;
};

LayerParameters add_layer(Builder& b, const ModelConfig& c, int64_t index) {
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  const std::string attention = layer + "self_attn.";
  const int64_t q_width = c.heads * c.head_dim;
  const int64_t kv_width = c.kv_heads * c.head_dim;
  LayerParameters p;
  b.set_layer(index);
  p.input_norm = b.add(layer + "input_layernorm.weight", Role::kNorm, 1, c.hidden);
  p.q = b.add(attention + "q_proj.weight", Role::kMatrix, q_width, c.hidden);
  p.k = b.add(attention + "k_proj.weight", Role::kMatrix, kv_width, c.hidden);
  p.v = b.add(attention + "v_proj.weight", Role::kMatrix, kv_width, c.hidden);
  if (c.qkv_bias) {
    p.q_bias = b.add(attention + "q_proj.bias", Role::kBias, 1, q_width);
    p.k_bias = b.add(attention + "k_proj.bias", Role::kBias, 1, kv_width);
    p.v_bias = b.add(attention + "v_proj.bias", Role::kBias, 1, kv_width);
  }
  if (c.qk_norm) {
    p.q_norm = b.add(attention + "q_norm.weight", Role::kHeadNorm, 1, c.head_dim, c.heads);
    p.k_norm = b.add(attention + "k_norm.weight", Role::kHeadNorm, 1, c.head_dim, c.kv_heads);
  }
  p.o = b.add(attention + "o_proj.weight", Role::kMatrix, c.hidden, q_width);
  p.post_norm = b.add(layer + "post_attention_layernorm.weight", Role::kNorm, 1, c.hidden);
  p.gate = b.add(layer + "mlp.gate_proj.weight", Role::kMatrix, c.intermediate, c.hidden);
  p.up = b.add(layer + "mlp.up_proj.weight", Role::kMatrix, c.intermediate, c.hidden);
  p.down = b.add(layer + "mlp.down_proj.weight", Role::kMatrix, c.hidden, c.intermediate);
  return p;
}

}  // namespace

ParameterTable make_parameters(const ModelConfig& config) {
  ParameterTable table;
  Builder builder(table);
  table.embedding =
      builder.add("model.embed_tokens.weight", Role::kEmbedding, config.vocab, config.hidden);
  for (int64_t l = 0; l < config.layers; ++l) table.layers.push_back(add_layer(builder, config, l));
  builder.set_layer(-1);
  table.final_norm = builder.add("model.norm.weight", Role::kNorm, 1, config.hidden);
  table.head = config.tied
                   ? table.embedding
                   : builder.add("lm_head.weight", Role::kHead, config.vocab, config.hidden);
  return table;
}

}  // namespace rlreplay

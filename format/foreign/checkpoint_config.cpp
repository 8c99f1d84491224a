#include "format/foreign/checkpoint_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "format/foreign/text.h"
#include "src/base/json_value.h"

namespace rlreplay::foreign {
namespace {

// With these no product of sizes comes near the end of 64 bits.
constexpr int64_t kMaxWidth = int64_t{1} << 20;  // of a row, and of all heads together
constexpr int64_t kMaxIds = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxLayers = 10000;
constexpr int64_t kMaxParameters = int64_t{1} << 48;
constexpr JsonLimits kLimits = {size_t{1} << 20, 16, /*unique_keys=*/true};

struct KnownArchitecture {
  std::string_view class_name;
  Architecture architecture;
};

constexpr KnownArchitecture kArchitectures[] = {{"LlamaForCausalLM", Architecture::kLlama},
                                                {"Qwen2ForCausalLM", Architecture::kQwen2},
                                                {"Qwen3ForCausalLM", Architecture::kQwen3}};

[[noreturn]] void unsupported(const JsonValue& value, const std::string& message) {
  throw value.error(ErrorCode::kUnsupported, message);
}

/// False where the key is not there; null is neither.
bool flag(const JsonValue& root, std::string_view key) {
  const auto members = root.members();
  const auto it = std::ranges::find(members, key, [](const auto& member) { return member.first; });
  return it != members.end() && it->second.boolean();
}

double number(const JsonValue& root, std::string_view key, double fallback) {
  const std::optional<JsonValue> value = root.find(key);
  return value ? value->number() : fallback;
}

Architecture find_architecture(const JsonValue& root) {
  const JsonValue type = root["model_type"];
  for (const KnownArchitecture& known : kArchitectures) {
    if (name(known.architecture) != type.string()) continue;
    const std::optional<JsonValue> architectures = root.find("architectures");
    if (!architectures) return known.architecture;
    if (architectures->size() == 1 && architectures->at(0).string() == known.class_name) {
      return known.architecture;
    }
    unsupported(*architectures, "architectures " + architectures->dump() + "; " +
                                    std::string(known.class_name) + " is supported");
  }
  unsupported(type, "model type " + printable(type.string()) +
                        " is not supported; llama, qwen2 and qwen3 are");
}

/// Options that would change the arithmetic and have no place here.
void refuse_options(const JsonValue& root) {
  const std::optional<JsonValue> activation = root.find("hidden_act");
  if (activation && activation->string() != "silu") {
    unsupported(*activation,
                "activation " + printable(activation->string()) + "; silu is supported");
  }
  for (const std::string_view key :
       {"attention_bias", "mlp_bias", "use_sliding_window", "use_mrope"}) {
    if (flag(root, key)) unsupported(root[key], std::string(key) + " is not supported");
  }
  if (const auto value = root.find("quantization_config")) {
    unsupported(*value, "quantized checkpoints are not supported");
  }
  if (number(root, "partial_rotary_factor", 1) != 1) {
    unsupported(root["partial_rotary_factor"], "partial rotary embeddings are not supported");
  }
  if (number(root, "pretraining_tp", 1) != 1) {
    unsupported(root["pretraining_tp"], "pretraining_tp other than 1 is not supported");
  }
  if (const auto types = root.find("layer_types")) {
    for (size_t i = 0; i < types->size(); ++i) {
      if (types->at(i).string() == "full_attention") continue;
      unsupported(types->at(i), "layer type " + printable(types->at(i).string()) +
                                    "; full_attention is supported");
    }
  }
}

RopeScaling read_scaling(const JsonValue& rope, int64_t max_positions) {
  std::optional<JsonValue> type = rope.find("rope_type");
  if (!type) type = rope.find("type");
  RopeScaling scaling;
  if (!type || type->string() == "default") return scaling;
  if (type->string() != "llama3") {
    unsupported(*type, "rope scaling " + printable(type->string()) +
                           "; 'default' and 'llama3' are supported");
  }
  scaling.llama3 = true;
  scaling.factor = rope["factor"].number();
  scaling.low_freq_factor = rope["low_freq_factor"].number();
  scaling.high_freq_factor = rope["high_freq_factor"].number();
  const auto original = rope.find("original_max_position_embeddings");
  scaling.original_max_positions = original ? original->integer(1, kMaxIds) : max_positions;
  const bool sound = scaling.factor >= 1 && scaling.low_freq_factor > 0 &&
                     scaling.high_freq_factor > scaling.low_freq_factor;
  if (!sound) throw rope.error("the factors of llama3 rope scaling contradict each other");
  return scaling;
}

/// `rope_parameters` since transformers 5, `rope_scaling` before. Where a file has both,
/// transformers takes the older one, and of the newer not even its rope_theta.
std::optional<JsonValue> find_rope(const JsonValue& root) {
  const auto scaling = root.find("rope_scaling");
  return scaling && !scaling->members().empty() ? scaling : root.find("rope_parameters");
}

void read_rope(const JsonValue& root, ModelConfig& config) {
  config.rope_theta = number(root, "rope_theta", 10000);
  if (const auto rope = find_rope(root)) {
    for (const auto& [key, value] : rope->members()) {
      if (value.is_object()) unsupported(value, "rope parameters by layer type are not supported");
    }
    config.rope_theta = number(*rope, "rope_theta", config.rope_theta);
    if (number(*rope, "partial_rotary_factor", 1) != 1) {
      unsupported(*rope, "partial rotary embeddings are not supported");
    }
    config.rope_scaling = read_scaling(*rope, config.max_positions);
  }
  if (!(config.rope_theta > 0) || !std::isfinite(config.rope_theta)) {
    throw root.error("rope_theta is not a positive number");
  }
}

/// Sizes that each are allowed may still make a model that no 64 bits can count.
void check_total(const JsonValue& root, const ModelConfig& c) {
  const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  if (queries > kMaxWidth) {
    throw root.error("the heads have " + std::to_string(queries) + " columns, at most " +
                     std::to_string(kMaxWidth) + " are read");
  }
  const int64_t layer = c.hidden * (2 * queries + 2 * keys + 3 * c.intermediate);
  const int64_t all = c.layers * layer + 2 * c.vocab * c.hidden;
  if (all > kMaxParameters) {
    throw root.error("the model has about " + std::to_string(all) + " parameters, at most " +
                     std::to_string(kMaxParameters) + " are read");
  }
}

void read_sizes(const JsonValue& root, ModelConfig& config) {
  const auto size = [&](std::string_view key) { return root[key].integer(1, kMaxWidth); };
  const auto ids = [&](std::string_view key) { return root[key].integer(1, kMaxIds); };
  config.hidden = size("hidden_size");
  config.intermediate = size("intermediate_size");
  config.layers = root["num_hidden_layers"].integer(1, kMaxLayers);
  config.heads = size("num_attention_heads");
  config.kv_heads = root.find("num_key_value_heads") ? size("num_key_value_heads") : config.heads;
  config.vocab = ids("vocab_size");
  config.max_positions = ids("max_position_embeddings");
  if (root.find("head_dim")) {
    config.head_dim = size("head_dim");
  } else if (config.architecture == Architecture::kQwen3) {
    config.head_dim = 128;  // transformers' default, whatever the hidden size
  } else if (config.hidden % config.heads != 0) {
    throw root["num_attention_heads"].error("hidden_size is not a multiple of it");
  } else {
    config.head_dim = config.hidden / config.heads;
  }
  if (config.head_dim % 2 != 0) throw root.error("the head dimension is odd");
  if (config.heads % config.kv_heads != 0) {
    throw root.error("num_attention_heads is not a multiple of num_key_value_heads");
  }
  check_total(root, config);
}

/// An id, a list of ids, or nothing.
std::vector<int32_t> read_ids(const JsonValue& root, std::string_view key) {
  std::vector<int32_t> ids;
  const std::optional<JsonValue> value = root.find(key);
  if (!value) return ids;
  const auto id = [](const JsonValue& v) {
    return static_cast<int32_t>(v.integer(0, std::numeric_limits<int32_t>::max()));
  };
  if (!value->is_array()) return {id(*value)};
  for (size_t i = 0; i < value->size(); ++i) ids.push_back(id(value->at(i)));
  return ids;
}

JsonDocument read_json(const std::string& path) { return JsonDocument::read(path, kLimits); }

ModelConfig read_config(const JsonValue& root) {
  ModelConfig config;
  config.architecture = find_architecture(root);
  config.qkv_bias = config.architecture == Architecture::kQwen2;
  config.qk_norm = config.architecture == Architecture::kQwen3;
  refuse_options(root);
  read_sizes(root, config);
  read_rope(root, config);
  config.norm_eps = number(root, "rms_norm_eps", 1e-6);
  if (!(config.norm_eps > 0)) throw root.error("rms_norm_eps is not a positive number");
  config.tied = flag(root, "tie_word_embeddings");
  config.stop_ids = read_ids(root, "eos_token_id");
  return config;
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, const std::string& where) {
  return read_config(JsonDocument::parse(text, where, kLimits).root());
}

ModelConfig read_model_config(const std::string& folder) {
  const auto has = [&](const char* name) { return std::filesystem::exists(folder + "/" + name); };
  if (!has("config.json") && has("adapter_config.json")) {
    throw Error(ErrorCode::kUnsupported,
                "the folder holds a LoRA adapter and no model: merge it into its base model, and "
                "give the folder of the result",
                folder);
  }
  ModelConfig config = read_config(read_json(folder + "/config.json").root());
  if (has("generation_config.json")) {
    const JsonDocument options = read_json(folder + "/generation_config.json");
    const std::vector<int32_t> ids = read_ids(options.root(), "eos_token_id");
    if (!ids.empty()) config.stop_ids = ids;
  }
  return config;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  const int64_t queries = config.heads * config.head_dim;
  const int64_t keys = config.kv_heads * config.head_dim;
  std::vector<ExpectedTensor> all;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    all.push_back({name, std::move(shape)});
  };
  add("model.embed_tokens.weight", {config.vocab, config.hidden});
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const std::string attention = layer + "self_attn.";
    add(layer + "input_layernorm.weight", {config.hidden});
    add(attention + "q_proj.weight", {queries, config.hidden});
    add(attention + "k_proj.weight", {keys, config.hidden});
    add(attention + "v_proj.weight", {keys, config.hidden});
    if (config.qkv_bias) {
      add(attention + "q_proj.bias", {queries});
      add(attention + "k_proj.bias", {keys});
      add(attention + "v_proj.bias", {keys});
    }
    if (config.qk_norm) {
      add(attention + "q_norm.weight", {config.head_dim});
      add(attention + "k_norm.weight", {config.head_dim});
    }
    add(attention + "o_proj.weight", {config.hidden, queries});
    add(layer + "post_attention_layernorm.weight", {config.hidden});
    add(layer + "mlp.gate_proj.weight", {config.intermediate, config.hidden});
    add(layer + "mlp.up_proj.weight", {config.intermediate, config.hidden});
    add(layer + "mlp.down_proj.weight", {config.hidden, config.intermediate});
  }
  add("model.norm.weight", {config.hidden});
  if (!config.tied) add("lm_head.weight", {config.vocab, config.hidden});
  return all;
}

}  // namespace rlreplay::foreign

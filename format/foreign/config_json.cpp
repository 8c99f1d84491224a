
#include "format/foreign/checkpoint_config.h"
#include "src/base/number_text.h"

namespace rlreplay::foreign {
namespace {

/// A number as JSON, always with a fraction or an exponent: readers tell it from an integer.
std::string real(double value) {
  const std::string out = shortest(value);
  return out.find_first_of(".e") == out.npos ? out + ".0" : out;
}

std::string_view class_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "LlamaForCausalLM";
    case Architecture::kQwen2:
      return "Qwen2ForCausalLM";
    case Architecture::kQwen3:
      return "Qwen3ForCausalLM";
  }
  return "?";
}

std::string ids(const std::vector<int32_t>& list) {
  std::string out;
  for (const int32_t id : list) out += (out.empty() ? "[" : ", ") + std::to_string(id);
  return out.empty() ? "null" : out + "]";
}

std::string scaling(const RopeScaling& rope) {
  return "{\"rope_type\": \"llama3\", \"factor\": " + real(rope.factor) +
         ", \"low_freq_factor\": " + real(rope.low_freq_factor) +
         ", \"high_freq_factor\": " + real(rope.high_freq_factor) +
         ", \"original_max_position_embeddings\": " + std::to_string(rope.original_max_positions) +
         "}";
}

}  // namespace

std::string config_json(const ModelConfig& c) {
  std::string out;
  const auto add = [&](std::string_view key, const std::string& value) {
    out.append(out.empty() ? "{\n  \"" : ",\n  \"").append(key).append("\": ").append(value);
  };
  const auto text = [](std::string_view value) { return "\"" + std::string(value) + "\""; };
  add("architectures", "[" + text(class_name(c.architecture)) + "]");
  add("model_type", text(name(c.architecture)));
  add("hidden_size", std::to_string(c.hidden));
  add("intermediate_size", std::to_string(c.intermediate));
  add("num_hidden_layers", std::to_string(c.layers));
  add("num_attention_heads", std::to_string(c.heads));
  add("num_key_value_heads", std::to_string(c.kv_heads));
  add("head_dim", std::to_string(c.head_dim));
  add("vocab_size", std::to_string(c.vocab));
  add("max_position_embeddings", std::to_string(c.max_positions));
  add("rms_norm_eps", real(c.norm_eps));
  add("rope_theta", real(c.rope_theta));
  if (c.rope_scaling.llama3) add("rope_scaling", scaling(c.rope_scaling));
  add("hidden_act", text("silu"));
  add("tie_word_embeddings", c.tied ? "true" : "false");
  add("torch_dtype", text("float32"));
  add("eos_token_id", ids(c.stop_ids));
  return out + "\n}\n";
}

}  // namespace rlreplay::foreign

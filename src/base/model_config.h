#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rlreplay {

/// The architectures that are computed; ModelConfig says in what they differ.
enum class Architecture { kLlama, kQwen2, kQwen3 };

/// The name that config.json gives it: "qwen2".
[[nodiscard]] constexpr std::string_view name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
  }
  return "?";
}

/// How rotary frequencies are scaled: not at all, or as Llama 3.1 does.
struct RopeScaling {
  bool llama3 = false;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 0;
};

/// The shape of a dense decoder, without any file behind it.
struct ModelConfig {
  Architecture architecture = Architecture::kQwen2;
  int64_t hidden = 0;        // C
  int64_t intermediate = 0;  // F
  int64_t layers = 0;        // L
  int64_t heads = 0;         // H, query heads
  int64_t kv_heads = 0;      // G
  int64_t head_dim = 0;      // D
  int64_t vocab = 0;         // V
  int64_t max_positions = 0;
  double norm_eps = 1e-6;  // rounded to binary32 where it is used
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tied = false;              // the output head is the embedding
  bool qkv_bias = false;          // Qwen2
  bool qk_norm = false;           // Qwen3
  std::vector<int32_t> stop_ids;  // tokens that end a response
};

/// Whether two models have the same tensors.
[[nodiscard]] inline bool same_shape(const ModelConfig& a, const ModelConfig& b) {
  return a.architecture == b.architecture && a.hidden == b.hidden &&
         a.intermediate == b.intermediate && a.layers == b.layers && a.heads == b.heads &&
         a.kv_heads == b.kv_heads && a.head_dim == b.head_dim && a.vocab == b.vocab &&
         a.tied == b.tied;
}

}  // namespace rlreplay

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlreplay::foreign {

enum class ModelFamily { kLlama, kQwen2, kQwen3 };

/// The name that config.json gives it: "qwen2".
std::string_view to_string(ModelFamily family);

/// How rotary frequencies are scaled: not at all, or as Llama 3.1 does.
struct RopeScaling {
  bool llama3 = false;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_positions = 0;
};

/// What config.json says about a dense decoder. Names follow the tensor letters of the project.
struct ModelConfig {
  ModelFamily family = ModelFamily::kQwen2;
  int64_t hidden = 0;        // C
  int64_t intermediate = 0;  // F
  int64_t layers = 0;        // L
  int64_t heads = 0;         // H, query heads
  int64_t kv_heads = 0;      // G
  int64_t head_dim = 0;      // D
  int64_t vocab = 0;         // V
  int64_t max_positions = 0;
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tied = false;              // the output head is the embedding
  bool qkv_bias = false;          // Qwen2
  bool qk_norm = false;           // Qwen3
  std::vector<int64_t> stop_ids;  // end-of-sequence tokens
};

/// Reads FOLDER/config.json, as transformers wrote it before or since version 5, and the stop ids
/// of FOLDER/generation_config.json where there is one. Errors: kUnsupported, naming what is not
/// supported; kCorrupt, naming the key; kIncomplete where there is no config.json.
ModelConfig read_model_config(const std::string& folder);

/// A tensor that a checkpoint of this configuration must hold.
struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

/// All tensors of a model, by their names on disk: embedding, layers, final norm, and the head
/// where it is not tied.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace rlreplay::foreign

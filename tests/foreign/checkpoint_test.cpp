#include "format/foreign/checkpoint.h"

#include <algorithm>
#include <limits>
#include <map>

#include "format/foreign/float_values.h"
#include "format/foreign/safetensors_writer.h"
#include "src/base/json_value.h"
#include "tests/foreign/support.h"
#include "tests/material.h"

namespace rlreplay::foreign {
namespace {

namespace fs = std::filesystem;

const std::string kSizes =
    R"("hidden_size":8,"intermediate_size":12,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("num_key_value_heads":1,"vocab_size":16,"max_position_embeddings":64,"rms_norm_eps":1e-5)";

std::string config_text(const std::string& more, const std::string& type = "llama") {
  return R"({"model_type":")" + type + R"(",)" + kSizes + (more.empty() ? "" : "," + more) + "}";
}

ModelConfig parse(const std::string& text) {
  const TempFolder folder;
  folder.write("config.json", text);
  return read_model_config(folder.path().string());
}

TEST_CASE("both styles of config.json mean the same") {
  const std::string scaling = R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
                              R"("original_max_position_embeddings":32,"rope_type":"llama3")";
  const ModelConfig old =
      parse(config_text(R"("rope_theta":5e5,"rope_scaling":{)" + scaling + "}"));
  const ModelConfig now =
      parse(config_text(R"("rope_parameters":{"rope_theta":5e5,)" + scaling + "}"));
  for (const ModelConfig& config : {old, now}) {
    CHECK(config.architecture == Architecture::kLlama);
    CHECK(config.rope_theta == 5e5);
    CHECK(config.rope_scaling.llama3);
    CHECK(config.rope_scaling.factor == 8);
    CHECK(config.rope_scaling.original_max_positions == 32);
    CHECK(config.head_dim == 4);
    CHECK(config.norm_eps == 1e-5);
    CHECK(!config.tied);
  }
  CHECK(parse(config_text(R"("rope_scaling":null,"rope_theta":1e6)")).rope_theta == 1e6);
  CHECK(!parse(config_text(R"("rope_parameters":{"rope_type":"default"})")).rope_scaling.llama3);
  CHECK(!parse(config_text(R"("rope_scaling":{"type":"default"})")).rope_scaling.llama3);
  CHECK(parse(config_text("", "qwen2")).qkv_bias);
  CHECK(parse(config_text("", "qwen3")).qk_norm);
  CHECK(parse(config_text("", "qwen3")).head_dim == 128);
  CHECK(parse(config_text(R"("eos_token_id":[3,4])")).stop_ids == std::vector<int32_t>{3, 4});
}

TEST_CASE("of both styles in one config.json the older counts alone, as in transformers") {
  const std::string parameters = R"("rope_parameters":{"rope_theta":5e5,"rope_type":"default"},)";
  const std::string llama3 = R"("rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
                             R"("high_freq_factor":4.0)";
  const auto both = [&](const std::string& scaling, const std::string& more = "") {
    return parse(config_text(parameters + R"("rope_scaling":)" + scaling + more));
  };
  CHECK(both("{" + llama3 + "}").rope_scaling.llama3);
  CHECK(both("{" + llama3 + "}").rope_scaling.original_max_positions == 64);
  CHECK(both("{" + llama3 + "}").rope_theta == 10000);
  CHECK(both("{" + llama3 + "}", R"(,"rope_theta":7e5)").rope_theta == 7e5);
  CHECK(both("{" + llama3 + R"(,"rope_theta":9e5})", R"(,"rope_theta":7e5)").rope_theta == 9e5);
  for (const char* nothing : {"{}", "null"}) {
    CHECK(both(nothing).rope_theta == 5e5);
    CHECK(!both(nothing).rope_scaling.llama3);
  }
  expect_error(ErrorCode::kUnsupported, "'yarn'",
               [&] { both(R"({"rope_type":"yarn","factor":4})"); });
}

TEST_CASE("no product of a model's sizes leaves 64 bits") {
  const auto refused = [](std::string_view fragment, std::string_view key, int64_t value) {
    std::string text = config_text("\"head_dim\":4");
    const auto at = text.find("\"" + std::string(key) + "\":") + key.size() + 3;
    text.replace(at, text.find_first_of(",}", at) - at, std::to_string(value));
    expect_error(ErrorCode::kCorrupt, fragment, [&] { parse_model_config(text, "a dump"); });
    text.replace(at, std::to_string(value).size(), std::to_string(value / 2));
    return parse_model_config(text, "a dump");
  };
  const int64_t wide = int64_t{1} << 21;
  CHECK(refused("an integer from 1", "hidden_size", wide).hidden == wide / 2);
  refused("an integer from 1", "intermediate_size", wide);
  refused("an integer from 1", "vocab_size", int64_t{1} << 31);
  refused("an integer from 1", "max_position_embeddings", int64_t{1} << 31);
  refused("the heads have", "head_dim", int64_t{1} << 20);
  std::string large = config_text("");
  large.replace(large.find("8,"), 2, "1048576,");
  large.replace(large.find("12,"), 3, "1048576,");
  CHECK(parse_model_config(large, "a dump").intermediate == 1048576);
  large.replace(large.find("layers\":1") + 8, 1, "10000");
  expect_error(ErrorCode::kCorrupt, "parameters, at most",
               [&] { parse_model_config(large, "a dump"); });
}

TEST_CASE("what the engine cannot compute is refused by name") {
  const auto refused = [](ErrorCode code, std::string_view fragment, const std::string& text) {
    expect_error(code, fragment, [&] { parse(text); });
  };
  const auto unsupported = [&](std::string_view fragment, const std::string& more,
                               const std::string& type = "llama") {
    refused(ErrorCode::kUnsupported, fragment, config_text(more, type));
  };
  unsupported("'qwen3_moe'", "", "qwen3_moe");
  unsupported("LlamaForCausalLM is supported",
              R"("architectures":["LlamaForTokenClassification"])");
  unsupported("'gelu'", R"("hidden_act":"gelu")");
  unsupported("attention_bias", R"("attention_bias":true)");
  unsupported("mlp_bias", R"("mlp_bias":true)");
  unsupported("use_sliding_window", R"("use_sliding_window":true)", "qwen2");
  unsupported("'sliding_attention'", R"("layer_types":["sliding_attention"])", "qwen2");
  unsupported("'yarn'", R"("rope_scaling":{"type":"yarn","factor":4})");
  unsupported("'linear'", R"("rope_parameters":{"rope_type":"linear","factor":4})");
  for (const char* key :
       {"attention_bias", "mlp_bias", "use_sliding_window", "tie_word_embeddings"}) {
    refused(ErrorCode::kCorrupt, "found null", config_text('"' + std::string(key) + "\":null"));
  }
  unsupported("by layer type", R"("rope_parameters":{"full_attention":{"rope_theta":5e5}})");
  unsupported("quantized", R"("quantization_config":{})");
  unsupported("partial rotary", R"("partial_rotary_factor":0.5)");
  refused(ErrorCode::kCorrupt, "\"model_type\" is missing", "{}");
  refused(ErrorCode::kCorrupt, "occurs twice", config_text(R"("hidden_size":9)"));
  refused(ErrorCode::kCorrupt, "not valid JSON", "{");
  refused(ErrorCode::kCorrupt, "contradict",
          config_text(R"("rope_scaling":{"rope_type":"llama3","factor":0.5,"low_freq_factor":1,)"
                      R"("high_freq_factor":4,"original_max_position_embeddings":32})"));
  refused(ErrorCode::kCorrupt, "odd", config_text(R"("head_dim":3)"));
  refused(ErrorCode::kCorrupt, "an integer from 1", config_text(R"("head_dim":-4)"));
  const TempFolder folder;
  expect_error(ErrorCode::kIncomplete, "cannot read",
               [&] { read_model_config(folder.path().string()); });
  folder.write("adapter_config.json", "{}");
  expect_error(ErrorCode::kUnsupported, "LoRA adapter",
               [&] { read_model_config(folder.path().string()); });
}

/// A small checkpoint that a test can damage before it is written.
class Model {
 public:
  explicit Model(const std::string& config) : config_text_(config) {
    const TempFolder folder;
    folder.write("config.json", config);
    config_ = read_model_config(folder.path().string());
    for (const ExpectedTensor& expected : expected_tensors(config_)) {
      int64_t count = 1;
      for (const int64_t size : expected.shape) count *= size;
      std::vector<float>& data = values_[expected.name];
      for (int64_t i = 0; i < count; ++i) data.push_back(static_cast<float>(i) / 8);
      shapes_[expected.name] = expected.shape;
    }
  }

  std::vector<float>& values(const std::string& name) { return values_[name]; }
  std::vector<int64_t>& shape(const std::string& name) { return shapes_[name]; }
  void remove(const std::string& name) { shapes_.erase(name); }

  std::vector<StoredTensor> tensors() const {
    std::vector<StoredTensor> all;
    for (const auto& [name, shape] : shapes_) {
      const std::vector<float>& data = values_.at(name);
      all.push_back({name,
                     DType::kF32,
                     shape,
                     {reinterpret_cast<const uint8_t*>(data.data()), data.size() * 4}});
    }
    return all;
  }

  void write(const TempFolder& folder) const {
    folder.write("config.json", config_text_);
    write_safetensors((folder.path() / "model.safetensors").string(), tensors());
  }

 private:
  std::string config_text_;
  ModelConfig config_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

void refused(ErrorCode code, std::string_view fragment, const TempFolder& folder) {
  expect_error(code, fragment, [&] { Checkpoint::open(folder.path().string()).check_finite(); });
}

TEST_CASE("a checkpoint holds exactly the tensors of its configuration") {
  const Model good(config_text(""));
  const TempFolder folder;
  good.write(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder.path().string());
  checkpoint.check_finite();
  CHECK(checkpoint.tensors().size() == 12);
  CHECK(checkpoint.tensor("lm_head.weight").shape == std::vector<int64_t>{16, 8});

  Model missing = good;
  missing.remove("model.layers.0.mlp.up_proj.weight");
  missing.write(folder);
  refused(ErrorCode::kIncomplete, "'model.layers.0.mlp.up_proj.weight' is missing", folder);

  Model reshaped = good;
  std::swap(reshaped.shape("lm_head.weight")[0], reshaped.shape("lm_head.weight")[1]);
  reshaped.write(folder);
  refused(ErrorCode::kCorrupt, "has the shape [8, 16], config.json asks for [16, 8]", folder);

  Model extra = good;
  extra.values("model.layers.1.mlp.up_proj.weight") = {1};
  extra.shape("model.layers.1.mlp.up_proj.weight") = {1};
  extra.write(folder);
  refused(ErrorCode::kCorrupt, "has no place in a llama model", folder);

  Model broken = good;
  broken.values("model.norm.weight")[5] = std::numeric_limits<float>::quiet_NaN();
  broken.write(folder);
  refused(ErrorCode::kCorrupt, "'model.norm.weight' holds NaN at index 5", folder);
  broken.values("model.norm.weight")[5] = -std::numeric_limits<float>::infinity();
  broken.write(folder);
  refused(ErrorCode::kCorrupt, "holds infinity at index 5", folder);
}

TEST_CASE("a tied checkpoint may store its embedding twice, if it is the same one") {
  Model model(config_text(R"("tie_word_embeddings":true)", "qwen2"));
  const TempFolder folder;
  model.write(folder);
  CHECK(Checkpoint::open(folder.path().string()).tensors().size() == 14);
  model.values("lm_head.weight") = model.values("model.embed_tokens.weight");
  model.shape("lm_head.weight") = {16, 8};
  model.write(folder);
  CHECK(Checkpoint::open(folder.path().string()).tensors().size() == 14);
  model.values("lm_head.weight")[0] += 1;
  model.write(folder);
  refused(ErrorCode::kCorrupt, "differs from the embedding", folder);
}

TEST_CASE("shards must be what their index says") {
  const Model model(config_text(""));
  const std::vector<StoredTensor> all = model.tensors();
  const TempFolder folder;
  folder.write("config.json", config_text(""));
  refused(ErrorCode::kIncomplete, "neither model.safetensors nor", folder);
  const auto shard = [&](const char* name, size_t begin, size_t end) {
    write_safetensors((folder.path() / name).string(), std::span(all).subspan(begin, end - begin));
  };
  const auto index = [&](const std::string& first, const std::string& second, size_t split) {
    std::string map;
    for (size_t i = 0; i < all.size(); ++i) {
      map += (i == 0 ? "\"" : ",\"") + all[i].name + "\":\"" + (i < split ? first : second) + "\"";
    }
    folder.write("model.safetensors.index.json", "{\"weight_map\":{" + map + "}}");
  };
  shard("a.safetensors", 0, 5);
  index("a.safetensors", "b.safetensors", 5);
  refused(ErrorCode::kIncomplete, "'b.safetensors' is missing", folder);
  shard("b.safetensors", 5, all.size());
  CHECK(Checkpoint::open(folder.path().string()).tensors().size() == all.size());
  index("a.safetensors", "b.safetensors", 6);
  refused(ErrorCode::kIncomplete, "does not hold it", folder);
  index("a.safetensors", "b.safetensors", 4);
  refused(ErrorCode::kCorrupt, "does not place there", folder);
  index("../a.safetensors", "b.safetensors", 5);
  refused(ErrorCode::kCorrupt, "beside its index", folder);
  folder.write("pytorch_model.bin", "");
  fs::remove(folder.path() / "model.safetensors.index.json");
  refused(ErrorCode::kUnsupported, "pickled", folder);
}

TEST_CASE("a written checkpoint has equal bits and its source's configuration") {
  const Model model(config_text(""));
  const TempFolder source;
  const TempFolder target;
  model.write(source);
  const Checkpoint first = Checkpoint::open(source.path().string());
  std::vector<StoredTensor> tensors;
  for (const StoredTensor* tensor : first.tensors()) tensors.push_back(*tensor);
  write_checkpoint(target.path().string(), source.path().string(), tensors);
  const Checkpoint second = Checkpoint::open(target.path().string());
  for (const StoredTensor* tensor : first.tensors()) {
    CHECK(std::ranges::equal(tensor->data, second.tensor(tensor->name).data));
  }
  // Readers convert weights to the type that the configuration names.
  const auto config = JsonDocument::read((target.path() / "config.json").string());
  CHECK(config.root()["dtype"].string() == "float32");
  const auto original = JsonDocument::parse(config_text(""), "source");
  for (const auto& [key, value] : original.root().members()) {
    CHECK(config.root()[key].dump() == value.dump());
  }
  expect_error(ErrorCode::kUsage, "not written over",
               [&] { write_checkpoint(source.path().string(), source.path().string(), tensors); });
}

void check_models(const fs::path& models) {
  const Checkpoint qwen2 = Checkpoint::open((models / "tiny-qwen2").string());
  CHECK(qwen2.config().tied);
  CHECK(qwen2.config().rope_theta == 1e6);
  CHECK(qwen2.config().stop_ids == std::vector<int32_t>{639, 637});
  const Checkpoint qwen3 = Checkpoint::open((models / "tiny-qwen3").string());
  CHECK(qwen3.config().head_dim == 48);
  CHECK(qwen3.tensor("lm_head.weight").dtype == DType::kBF16);
  const Checkpoint llama = Checkpoint::open((models / "tiny-llama").string());
  CHECK(llama.config().rope_scaling.original_max_positions == 512);
  for (const Checkpoint* checkpoint : {&qwen2, &qwen3, &llama}) {
    checkpoint->check_finite();
    std::vector<float> wide(static_cast<size_t>(checkpoint->tensors()[0]->count()));
    to_float(*checkpoint->tensors()[0], wide);
    CHECK(std::any_of(wide.begin(), wide.end(), [](float x) { return x != 0; }));
  }
  expect_error(ErrorCode::kUnsupported, "'qwen3_moe'",
               [&] { static_cast<void>(Checkpoint::open((models / "tiny-qwen3-moe").string())); });
  for (const auto& entry : fs::recursive_directory_iterator(models)) {
    if (entry.path().extension() != ".safetensors") continue;
    CHECK(!SafetensorsFile(entry.path().string()).tensors().empty());
  }
}

TEST_CASE("small checkpoints open, or are refused by name") {
  for (const fs::path& folder : test::material_folders()) check_models(folder / "models");
}

}  // namespace
}  // namespace rlreplay::foreign

#include "format/foreign/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "format/foreign/float_values.h"
#include "format/foreign/safetensors_writer.h"
#include "format/foreign/text.h"
#include "src/base/atomic_file.h"
#include "src/base/json_value.h"

namespace rlreplay::foreign {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kConfig = "config.json";

/// The files that a checkpoint takes as they are from the one that it comes from.
constexpr auto kCopied = std::to_array<const char*>(
    {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
     "vocab.json", "merges.txt", "chat_template.jinja"});

void make_folder(const std::string& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (!problem) return;
  throw Error(ErrorCode::kEnvironment, "cannot create the folder: " + problem.message(), folder);
}

void write_file(const std::string& folder, const std::string& name, Bytes bytes) {
  AtomicFile file((fs::path(folder) / name).string());
  file.write(bytes);
  file.commit();
}

void write_weights(const std::string& folder, std::span<const StoredTensor> tensors) {
  write_safetensors((fs::path(folder) / kSingle).string(), tensors);
  std::error_code ignored;
  fs::remove(fs::path(folder) / kIndex, ignored);
}

const StoredTensor* find(const std::vector<std::unique_ptr<SafetensorsFile>>& files,
                         std::string_view name) {
  for (const auto& file : files) {
    if (const StoredTensor* tensor = file->find(name)) return tensor;
  }
  return nullptr;
}

/// Tables that old checkpoints store although they follow from the configuration.
bool is_derived(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

void check_shape(const StoredTensor& tensor, const ExpectedTensor& expected,
                 const std::string& folder) {
  if (tensor.shape != expected.shape) {
    throw Error(ErrorCode::kCorrupt,
                "tensor " + printable(tensor.name) + " has the shape " + shape_text(tensor.shape) +
                    ", config.json asks for " + shape_text(expected.shape),
                folder);
  }
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF16) {
    throw Error(ErrorCode::kUnsupported,
                "tensor " + printable(tensor.name) + " holds " +
                    std::string(to_string(tensor.dtype)) + "; f32, bf16 and f16 are supported",
                folder);
  }
}

/// The element type of all tensors as config.json names it: readers convert to what that says.
std::string_view common_type(std::span<const StoredTensor> tensors) {
  const DType dtype = tensors.empty() ? DType::kF32 : tensors.front().dtype;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.dtype != dtype) return "float32";
  }
  if (dtype == DType::kBF16) return "bfloat16";
  return dtype == DType::kF16 ? "float16" : "float32";
}

/// The configuration at `path` with this element type, under its name before and since
/// transformers 5.
std::string config_of_type(const std::string& path, std::string_view type) {
  const JsonDocument document = JsonDocument::read(path, {size_t{1} << 20, 16, true});
  const bool old = document.root().find("torch_dtype").has_value();
  std::string out =
      "{\n  \"" + std::string(old ? "torch_dtype" : "dtype") + "\": " + json_quoted(type);
  for (const auto& [key, value] : document.root().members()) {
    if (key == "torch_dtype" || key == "dtype") continue;
    out += ",\n  " + json_quoted(key) + ": " + value.dump();
  }
  return out + "\n}\n";
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& folder) {
  if (!fs::is_directory(folder)) {
    throw Error(fs::exists(folder) ? ErrorCode::kUsage : ErrorCode::kIncomplete,
                "a checkpoint is a folder; there is none of this name", folder);
  }
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  checkpoint.config_ = read_model_config(folder);
  checkpoint.open_files();
  checkpoint.collect_tensors();
  checkpoint.check_others();
  return checkpoint;
}

void Checkpoint::open_files() {
  const fs::path folder(folder_);
  if (fs::exists(folder / kSingle)) {
    files_.push_back(std::make_unique<SafetensorsFile>((folder / kSingle).string()));
  } else if (fs::exists(folder / kIndex)) {
    open_shards((folder / kIndex).string());
  } else if (fs::exists(folder / "pytorch_model.bin") ||
             fs::exists(folder / "pytorch_model.bin.index.json")) {
    throw Error(ErrorCode::kUnsupported,
                "the weights are pickled (pytorch_model.bin); save them as safetensors", folder_);
  } else {
    throw Error(ErrorCode::kIncomplete,
                std::string("there is neither ") + kSingle + " nor " + kIndex, folder_);
  }
}

void Checkpoint::open_shards(const std::string& index_path) {
  const JsonDocument document =
      JsonDocument::read(index_path, {size_t{100} << 20, 8, /*unique_keys=*/true});
  std::map<std::string, std::set<std::string_view>> shards;
  for (const auto& [name, file] : document.root()["weight_map"].members()) {
    if (!is_plain_name(file.string())) {
      throw file.error("a shard must lie beside its index, not at " + printable(file.string()));
    }
    shards[file.string()].insert(name);
  }
  for (const auto& [name, tensors] : shards) {
    const std::string path = (fs::path(folder_) / name).string();
    if (!fs::exists(path)) {
      throw Error(ErrorCode::kIncomplete, "the shard " + printable(name) + " is missing", path);
    }
    files_.push_back(std::make_unique<SafetensorsFile>(path));
    for (const std::string_view tensor : tensors) {
      if (files_.back()->find(tensor) != nullptr) continue;
      throw Error(ErrorCode::kIncomplete,
                  "the index promises tensor " + printable(tensor) + ", the shard does not hold it",
                  path);
    }
    for (const StoredTensor& tensor : files_.back()->tensors()) {
      if (tensors.count(tensor.name) != 0) continue;
      throw Error(ErrorCode::kCorrupt,
                  "the shard holds tensor " + printable(tensor.name) +
                      ", which the index does not place there",
                  path);
    }
  }
}

void Checkpoint::collect_tensors() {
  for (const ExpectedTensor& expected : expected_tensors(config_)) {
    const StoredTensor* tensor = find(files_, expected.name);
    if (tensor == nullptr) {
      throw Error(ErrorCode::kIncomplete, "tensor " + printable(expected.name) + " is missing",
                  folder_);
    }
    check_shape(*tensor, expected, folder_);
    tensors_.push_back(tensor);
  }
}

void Checkpoint::check_others() const {
  std::set<std::string_view> known;
  for (const StoredTensor* tensor : tensors_) known.insert(tensor->name);
  for (const auto& file : files_) {
    for (const StoredTensor& tensor : file->tensors()) {
      if (known.count(tensor.name) != 0 || is_derived(tensor.name)) continue;
      const bool head = config_.tied && tensor.name == "lm_head.weight";
      // A tied checkpoint may store the embedding twice, if it is the same one.
      if (head && std::ranges::equal(tensor.data, tensors_[0]->data)) continue;
      throw Error(ErrorCode::kCorrupt,
                  head ? "lm_head.weight differs from the embedding that config.json ties it to"
                       : "tensor " + printable(tensor.name) + " has no place in a " +
                             std::string(name(config_.architecture)) + " model",
                  file->path());
    }
  }
}

const StoredTensor& Checkpoint::tensor(std::string_view name) const {
  for (const StoredTensor* tensor : tensors_) {
    if (tensor->name == name) return *tensor;
  }
  throw Error(ErrorCode::kInternal, "no tensor " + printable(name), folder_);
}

void Checkpoint::check_unchanged() const {
  for (const auto& file : files_) file->file().check_unchanged();
}

void Checkpoint::check_finite() const {
  check_unchanged();
  for (const StoredTensor* tensor : tensors_) {
    const std::optional<NonFinite> found = first_nonfinite(*tensor);
    if (!found) continue;
    throw Error(ErrorCode::kCorrupt,
                "tensor " + printable(tensor->name) + " holds " +
                    (found->nan ? "NaN" : "infinity") + " at index " + std::to_string(found->index),
                folder_);
  }
}

bool is_checkpoint_file(std::string_view name) {
  if (name.starts_with("model") && name.ends_with(".safetensors")) return true;
  return name == kIndex || name == kConfig ||
         std::ranges::any_of(kCopied, [&](const char* one) { return name == one; });
}

void write_checkpoint(const std::string& folder, std::span<const CheckpointFile> files,
                      std::span<const StoredTensor> tensors) {
  make_folder(folder);
  for (const CheckpointFile& file : files) write_file(folder, file.name, as_bytes(file.text));
  write_weights(folder, tensors);
}

void write_checkpoint(const std::string& folder, const std::string& source,
                      std::span<const StoredTensor> tensors) {
  make_folder(folder);
  if (fs::equivalent(folder, source)) {
    throw Error(ErrorCode::kUsage, "a checkpoint is not written over the one that it comes from",
                folder);
  }
  const std::string config =
      config_of_type((fs::path(source) / kConfig).string(), common_type(tensors));
  write_file(folder, kConfig, as_bytes(config));
  for (const char* name : kCopied) {
    if (!fs::exists(fs::path(source) / name)) continue;
    const MappedFile original((fs::path(source) / name).string());
    write_file(folder, name, original.bytes());
  }
  write_weights(folder, tensors);
}

}  // namespace rlreplay::foreign

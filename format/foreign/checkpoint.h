#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/checkpoint_config.h"
#include "format/foreign/safetensors_file.h"

namespace rlreplay::foreign {

/// A checkpoint of the Hugging Face hub: config.json and model.safetensors, or the shards that
/// model.safetensors.index.json names. The weights stay in the mapped files.
class Checkpoint {
 public:
  /// Opens a checkpoint and checks that it holds exactly the tensors of its configuration, each of
  /// the right shape and of type f32, bf16 or f16. The contents are not read.
  /// Errors: kIncomplete for missing files and tensors, kCorrupt for wrong ones, kUnsupported.
  [[nodiscard]] static Checkpoint open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }

  /// The model's tensors, in the order of expected_tensors.
  const std::vector<const StoredTensor*>& tensors() const { return tensors_; }

  /// The tensor of this name. Errors: kInternal where the configuration has none.
  const StoredTensor& tensor(std::string_view name) const;

  /// Called when the last of the contents was used. Errors: kCorrupt where a file was changed since
  /// it was opened.
  void check_unchanged() const;

  /// Reads all contents. Errors: kCorrupt at the first NaN or infinity, naming tensor and index.
  void check_finite() const;

 private:
  Checkpoint() = default;
  void open_files();
  void open_shards(const std::string& index_path);
  void collect_tensors();
  void check_others() const;

  std::string folder_;
  ModelConfig config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<const StoredTensor*> tensors_;
};

/// A text that belongs to a checkpoint: config.json, tokenizer.json.
struct CheckpointFile {
  std::string name;
  std::string text;
};

/// Whether a checkpoint may have a file of this name: weights, configuration, tokenizer.
[[nodiscard]] bool is_checkpoint_file(std::string_view name);

/// Writes `tensors` as FOLDER/model.safetensors and the texts beside it. An index of shards that
/// FOLDER held goes away.
/// Errors: kEnvironment.
void write_checkpoint(const std::string& folder, std::span<const CheckpointFile> files,
                      std::span<const StoredTensor> tensors);

/// Writes `tensors` as FOLDER/model.safetensors and copies configuration and tokenizer of the
/// checkpoint in `source` beside it. An index of shards that FOLDER held goes away.
/// Errors: kEnvironment; kUsage where both folders are one.
void write_checkpoint(const std::string& folder, const std::string& source,
                      std::span<const StoredTensor> tensors);

}  // namespace rlreplay::foreign

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/safetensors_file.h"
#include "src/base/json_value.h"

namespace rlreplay::replay {

/// A file of safetensors that could be read.
struct WeightFile {
  std::string name;
  foreign::SafetensorsFile content;
};

/// A file that is damaged, or named and not there.
struct BrokenFile {
  std::string name;
  std::string problem;  // a sentence
  bool absent = false;
};

/// A tensor and where it lies.
struct WeightTensor {
  const foreign::StoredTensor* stored = nullptr;
  const WeightFile* file = nullptr;

  const std::string& name() const { return stored->name; }
};

/// The weights of a folder, or of one file, as they are: files that break their rules are named and
/// passed over. Where there is an index the files are those that it names.
struct WeightFiles {
  std::string path;
  bool is_folder = false;
  std::vector<std::unique_ptr<WeightFile>> files;  // by name
  std::vector<BrokenFile> broken;
  std::vector<std::string> beside;  // files of a model's name that do not belong to the index
  std::optional<JsonDocument> config, index;
  std::string index_problem;                  // why there is no index although a file has its name
  std::map<std::string, std::string> placed;  // by the index: the file of a tensor
  std::vector<WeightTensor> tensors;          // of all files, in their order

  /// Errors: kIncomplete where there is no such path, no safetensors or no tensor in them,
  /// kUnsupported for pickled weights and unknown element types, kCorrupt for a config.json that is
  /// none.
  [[nodiscard]] static WeightFiles open(const std::string& path);

  [[nodiscard]] bool whole() const { return broken.empty(); }
  /// The first tensor of this name, or null.
  [[nodiscard]] const WeightTensor* find(std::string_view name) const;
  /// A member of config.json, or of the part of it that is of the language model.
  [[nodiscard]] std::optional<JsonValue> setting(std::string_view key) const;
  /// A size of config.json. Errors: kCorrupt where it is none.
  [[nodiscard]] std::optional<int64_t> size_of_model(std::string_view key) const;
  /// Errors: kCorrupt where a file was changed since it was opened.
  void check_unchanged() const;
};

/// The parts of "model-00002-of-00008.safetensors".
struct ShardName {
  std::string stem;
  int64_t number = 0, total = 0;
};
[[nodiscard]] std::optional<ShardName> parse_shard_name(std::string_view name);

}  // namespace rlreplay::replay

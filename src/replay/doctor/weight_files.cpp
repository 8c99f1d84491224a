#include "src/replay/doctor/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "src/base/dtype.h"
#include "src/base/number_text.h"
#include "src/base/printable.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kConfigFile = "config.json";
constexpr JsonLimits kConfigLimits = {size_t{1} << 20, 32, /*unique_keys=*/true};
constexpr JsonLimits kIndexLimits = {size_t{32} << 20, 8, /*unique_keys=*/true};
// Tens of thousands of tensors; what is parsed of them stays within bounds.
constexpr uint64_t kMostHeader = uint64_t{8} << 20;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

void check_header_size(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char bytes[8] = {};
  if (!file.read(bytes, sizeof bytes)) return;  // said by whoever reads the file
  const auto size = load_as<uint64_t>(bytes);
  if (size <= kMostHeader) return;
  throw Error(ErrorCode::kCorrupt,
              "the header claims " + std::to_string(size) + " bytes; at most " +
                  std::to_string(kMostHeader) + " are read",
              path);
}

/// Opens a file, or says why not.
void open_file(const fs::path& folder, const std::string& name, WeightFiles& out) {
  const std::string path = (folder / name).string();
  std::error_code problem;  // of names that no file can have
  if (!fs::exists(path, problem)) {
    out.broken.push_back(
        {name, problem ? problem.message() : "the index names it and it is not there", true});
    return;
  }
  try {
    if (fs::is_regular_file(path)) check_header_size(path);
    out.files.push_back(
        std::make_unique<WeightFile>(WeightFile{name, foreign::SafetensorsFile(path)}));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kIncomplete &&
        error.code() != ErrorCode::kLimit) {
      throw;
    }
    out.broken.push_back({name, error.what()});
  }
}

/// Names of all files of safetensors in a folder, sorted.
std::vector<std::string> list_files(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(kSuffix)) out.push_back(std::move(name));
  }
  std::ranges::sort(out);
  return out;
}

bool is_model_name(const std::string& name) {
  return name == kSingleFile || parse_shard_name(name).has_value();
}

void read_index(const std::string& path, WeightFiles& out) {
  try {
    JsonDocument document = JsonDocument::read(path, kIndexLimits);
    for (const auto& [tensor, file] : document.root()["weight_map"].members()) {
      if (!is_plain_name(file.string())) {
        throw file.error("a shard must lie beside its index, not at " + printable(file.string()));
      }
      out.placed.emplace(tensor, file.string());
    }
    out.index = std::move(document);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kLimit) throw;
    out.index_problem = error.what();
    out.placed.clear();
  }
}

/// Which files hold the weights of a folder. Those that belong to no model's name are passed over
/// where others do.
std::set<std::string> choose_files(WeightFiles& out) {
  const std::vector<std::string> all = list_files(out.path);
  std::set<std::string> chosen;
  for (const auto& [tensor, file] : out.placed) chosen.insert(file);
  if (!chosen.empty()) {
    for (const std::string& name : all) {
      if (is_model_name(name) && !chosen.contains(name)) out.beside.push_back(name);
    }
    return chosen;
  }
  for (const std::string& name : all) {
    if (is_model_name(name)) chosen.insert(name);
  }
  if (chosen.empty()) chosen.insert(all.begin(), all.end());
  return chosen;
}

void refuse_empty(const std::string& path) {
  if (fs::exists(fs::path(path) / "pytorch_model.bin") ||
      fs::exists(fs::path(path) / "pytorch_model.bin.index.json")) {
    throw Error(ErrorCode::kUnsupported,
                "the weights are pickled (pytorch_model.bin); save them as safetensors", path);
  }
  throw Error(ErrorCode::kIncomplete,
              "a checkpoint has weights as safetensors; there are none in this folder", path);
}

void open_folder(WeightFiles& out) {
  const fs::path folder(out.path);
  if (fs::exists(folder / kConfigFile)) {
    out.config = JsonDocument::read((folder / kConfigFile).string(), kConfigLimits);
    if (!out.config->root().is_object()) {
      throw out.config->root().error("a configuration is an object");
    }
  }
  if (fs::exists(folder / kIndexFile)) read_index((folder / kIndexFile).string(), out);
  const std::set<std::string> chosen = choose_files(out);
  if (chosen.empty()) refuse_empty(out.path);
  for (const std::string& name : chosen) open_file(folder, name, out);
}

}  // namespace

WeightFiles WeightFiles::open(const std::string& path) {
  WeightFiles out;
  out.path = path;
  std::error_code problem;
  if (!fs::exists(path, problem)) {
    throw Error(ErrorCode::kIncomplete, "there is no such checkpoint", path);
  }
  out.is_folder = fs::is_directory(path);
  if (out.is_folder) {
    open_folder(out);
  } else {
    if (!path.ends_with(kSuffix)) {
      throw Error(ErrorCode::kUsage,
                  "doctor looks at a checkpoint: a folder, or a file that ends with .safetensors",
                  path);
    }
    open_file(fs::path(path).parent_path(), fs::path(path).filename().string(), out);
  }
  for (const auto& file : out.files) {
    for (const foreign::StoredTensor& tensor : file->content.tensors()) {
      out.tensors.push_back({&tensor, file.get()});
    }
  }
  if (out.tensors.empty() && out.whole()) {
    throw Error(ErrorCode::kIncomplete, "the files hold no tensor", path);
  }
  return out;
}

const WeightTensor* WeightFiles::find(std::string_view name) const {
  for (const auto& file : files) {
    const foreign::StoredTensor* stored = file->content.find(name);
    if (stored == nullptr) continue;
    return &*std::ranges::find(tensors, stored, &WeightTensor::stored);
  }
  return nullptr;
}

std::optional<JsonValue> WeightFiles::setting(std::string_view key) const {
  if (!config) return std::nullopt;
  if (const auto value = config->root().find(key)) return value;
  for (const std::string_view part : {"text_config", "llm_config"}) {
    const auto inner = config->root().find(part);
    if (!inner || !inner->is_object()) continue;
    if (const auto value = inner->find(key)) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> WeightFiles::size_of_model(std::string_view key) const {
  const auto value = setting(key);
  return value ? std::optional(value->integer(0, int64_t{1} << 40)) : std::nullopt;
}

void WeightFiles::check_unchanged() const {
  for (const auto& file : files) file->content.file().check_unchanged();
}

std::optional<ShardName> parse_shard_name(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  const size_t of = name.rfind("-of-");
  if (of == name.npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == name.npos) return std::nullopt;
  const auto number = parse_number<int64_t>(name.substr(dash + 1, of - dash - 1));
  const auto total = parse_number<int64_t>(name.substr(of + 4));
  if (!number || !total || *number < 0 || *total < 1 || *total > 1'000'000) return std::nullopt;
  return ShardName{std::string(name.substr(0, dash)), *number, *total};
}

}  // namespace rlreplay::replay

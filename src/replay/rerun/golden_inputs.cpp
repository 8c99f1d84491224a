#include "src/replay/rerun/golden_inputs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "src/base/environment_error.h"
#include "src/base/hash.h"
#include "src/base/shell.h"
#include "src/task/find_tokenizer.h"

namespace fs = std::filesystem;

namespace rlreplay::replay {
namespace {

constexpr std::array<std::string_view, 2> kModelFiles = {"config.json", "generation_config.json"};
constexpr std::array<std::string_view, 3> kTokenizerFiles = {
    "chat_template.jinja", "tokenizer.json", "tokenizer_config.json"};

/// A file's length and its bytes: no two lists of files hash alike, and a name may change.
void add_file(const fs::path& path, Hasher& hasher) {
  std::error_code failed;
  const std::string head = std::to_string(fs::file_size(path, failed)) + '\n';
  hasher.update(std::as_bytes(std::span(head)));
  std::ifstream file(path, std::ios::binary);
  std::vector<char> part(size_t{1} << 20);
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    hasher.update(std::as_bytes(std::span(part).first(static_cast<size_t>(file.gcount()))));
  }
  if (!file.eof()) throw environment_error("cannot be read", path.string());
}

/// The hash of the files that are there, by their sorted paths; empty where none is.
std::string hash_of_files(std::vector<fs::path> files) {
  std::error_code absent;
  std::erase_if(files, [&](const fs::path& file) { return !fs::is_regular_file(file, absent); });
  if (files.empty()) return "";
  std::ranges::sort(files);
  Hasher hasher;
  for (const fs::path& file : files) add_file(file, hasher);
  return hasher.finish().hex();
}

std::vector<fs::path> in_folder(const std::string& folder,
                                std::span<const std::string_view> names) {
  std::vector<fs::path> out;
  for (const std::string_view name : names) out.push_back(fs::path(folder) / name);
  return out;
}

std::vector<fs::path> model_files(const std::string& folder) {
  std::vector<fs::path> out = in_folder(folder, kModelFiles);
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".safetensors") out.push_back(entry.path());
  }
  return out;
}

/// A command's words, as a shell reads them: those of them that are files are its inputs.
std::vector<fs::path> words_of(const std::string& command) {
  std::vector<fs::path> out;
  for (const ShellPart& part : shell_parts(command)) {
    if (part.kind == ShellPart::Kind::kWord) out.emplace_back(unquoted(part.text));
  }
  return out;
}

bool is_folder(const std::string& model) { return !model.empty() && model != kDemo; }

}  // namespace

GoldenEntries golden_inputs(const RunOptions& options) {
  GoldenEntries out;
  const auto add = [&](const char* name, std::vector<fs::path> files) {
    if (std::string hash = hash_of_files(std::move(files)); !hash.empty()) out[name] = hash;
  };
  if (is_folder(options.model)) {
    add("model", model_files(options.model));
    add("tokenizer", in_folder(options.model, kTokenizerFiles));
  }
  if (is_folder(options.ref_load)) add("reference", model_files(options.ref_load));
  if (!options.prompts.empty()) add("prompts", {options.prompts});
  if (options.reward == "command") add("reward", words_of(options.reward_command));
  return out;
}

}  // namespace rlreplay::replay

#include "src/replay/yaml_settings.h"

#include <filesystem>

#include <yaml-cpp/yaml.h>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

constexpr uintmax_t kMaxBytes = 1 << 20;

Error error_at(const std::string& path, const YAML::Mark& mark, const std::string& message) {
  return {ErrorCode::kCorrupt, message, path + ":" + std::to_string(mark.line + 1)};
}

std::string value_text(const YAML::Node& value, const std::string& path) {
  if (value.IsNull()) return "none";
  if (value.IsScalar()) return value.Scalar();
  if (!value.IsSequence()) {
    throw error_at(path, value.Mark(), "an option's value is a scalar or a list");
  }
  std::string out;
  for (const auto& item : value) {
    if (!item.IsScalar()) throw error_at(path, item.Mark(), "a list holds scalars only");
    out += (out.empty() ? "" : ",") + item.Scalar();
  }
  return out;
}

}  // namespace

std::vector<Setting> read_yaml_settings(const std::string& path) {
  std::error_code failed;
  const uintmax_t bytes = std::filesystem::file_size(path, failed);
  if (failed) throw Error(ErrorCode::kIncomplete, "cannot read the configuration", path);
  if (bytes > kMaxBytes)
    throw Error(ErrorCode::kCorrupt, "a configuration has at most 1 MiB", path);
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (root.IsNull()) return {};
    if (!root.IsMap()) throw error_at(path, root.Mark(), "a configuration is one mapping");
    std::vector<Setting> out;
    for (const auto& entry : root) {
      if (!entry.first.IsScalar()) throw error_at(path, entry.first.Mark(), "a key is a name");
      out.emplace_back(entry.first.Scalar(), value_text(entry.second, path));
    }
    return out;
  } catch (const YAML::Exception& e) {
    throw error_at(path, e.mark, "no YAML: " + e.msg);
  }
}

}  // namespace rlreplay::replay

#include "src/replay/options/yaml_settings.h"

#include <yaml-cpp/yaml.h>

#include "src/base/error.h"
#include "src/base/input_file.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kMaxYamlBytes = 1 << 20;

std::string place(const std::string& path, const YAML::Mark& mark) {
  return path + ":" + std::to_string(mark.line + 1);
}

Error error_at(const std::string& path, const YAML::Mark& mark, const std::string& message) {
  return {ErrorCode::kCorrupt, message, place(path, mark)};
}

std::string value_text(const std::string& key, const YAML::Node& value, const std::string& path) {
  if (value.IsNull()) return "none";
  if (value.IsScalar()) return value.Scalar();
  if (!value.IsSequence()) {
    throw error_at(path, value.Mark(), key + ": an option's value is a scalar or a list");
  }
  std::string out;
  for (const auto& item : value) {
    if (!item.IsScalar()) throw error_at(path, item.Mark(), key + ": a list holds scalars only");
    out += (out.empty() ? "" : ",") + item.Scalar();
  }
  return out;
}

}  // namespace

std::vector<PlacedSetting> read_yaml_settings(const std::string& path) {
  const std::string text = read_file(path, kMaxYamlBytes, "a configuration");
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return {};
    if (!root.IsMap()) throw error_at(path, root.Mark(), "a configuration is one mapping");
    std::vector<PlacedSetting> out;
    for (const auto& entry : root) {
      if (!entry.first.IsScalar()) throw error_at(path, entry.first.Mark(), "a key is a name");
      out.push_back({{entry.first.Scalar(), value_text(entry.first.Scalar(), entry.second, path)},
                     place(path, entry.first.Mark())});
    }
    return out;
  } catch (const YAML::Exception& e) {
    throw error_at(path, e.mark, "no YAML: " + e.msg);
  }
}

}  // namespace rlreplay::replay

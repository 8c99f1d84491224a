#include "src/replay/options/yaml_file.h"

#include <algorithm>
#include <array>
#include <set>

#include <yaml-cpp/yaml.h>

#include "src/base/ascii.h"
#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/json_value.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kMaxYamlBytes = 1 << 20;
constexpr size_t kMaxValues = 100'000;  // aliases can name more than a file holds
constexpr size_t kMaxDepth = 100;

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

/// Whether no reader takes this plain text for a number, a truth value, a date or nothing.
bool is_text_everywhere(const std::string& text) {
  static constexpr std::array kWords = {"y",    "yes",   "n",    "no",  "on",
                                        "true", "false", "null", "off", "none"};
  if (text.empty() || !(is_letter(text[0]) || text[0] == '_' || text[0] == '/')) return false;
  const auto plain = [](char c) {
    return is_word_character(c) || std::string_view("./-+").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(text, plain)) return false;
  return std::ranges::find(kWords, lower_case(text)) == kWords.end();
}

/// Walks through mappings; every other value is one leaf. `values_` counts each visit and not each
/// node, since an alias may name a node any number of times: that bounds time and text.
class LeafReader {
 public:
  explicit LeafReader(const std::string& path) : path_(path) {}

  std::vector<YamlLeaf> read() {
    const auto documents = YAML::LoadAll(read_file(path_, kMaxYamlBytes, "a configuration"));
    if (documents.size() > 1) {
      throw refused(documents[1], ErrorCode::kUnsupported, "a configuration is one document");
    }
    if (documents.empty() || documents[0].IsNull()) return {};
    if (!documents[0].IsMap()) {
      throw refused(documents[0], ErrorCode::kCorrupt, "a configuration is one mapping");
    }
    add_members(documents[0], {});
    return out_;
  }

  Error refused(const YAML::Mark& mark, ErrorCode code, const std::string& message) const {
    return {code, message, place(path_, mark)};
  }

 private:
  Error refused(const YAML::Node& node, ErrorCode code, const std::string& message) const {
    return refused(node.Mark(), code, message);
  }

  void add_members(const YAML::Node& mapping, const std::vector<std::string>& keys) {
    enter(mapping, keys.size());
    std::set<std::string> seen;
    for (const auto& entry : mapping) {
      std::vector<std::string> below = keys;
      below.push_back(key_text(entry.first, seen));
      if (entry.second.IsMap() && entry.second.size() > 0) {
        add_members(entry.second, below);
      } else {
        out_.push_back({below, text(entry.second, below.size())});
      }
    }
  }

  void enter(const YAML::Node& node, size_t depth) {
    if (depth > kMaxDepth || ++values_ > kMaxValues) {
      throw refused(node, ErrorCode::kUnsupported,
                    "this is nested too deeply, or has too many values");
    }
  }

  std::string key_text(const YAML::Node& key, std::set<std::string>& seen) {
    if (!key.IsScalar() || (key.Tag() == "?" && key.Scalar() == "<<")) {
      throw refused(key, ErrorCode::kUnsupported, "a key is a name: write out what `<<` brings in");
    }
    const std::string name = scalar_text(key);
    if (!seen.insert(name).second) {
      throw refused(key, ErrorCode::kCorrupt, name + " stands twice in one mapping");
    }
    return name;
  }

  std::string scalar_text(const YAML::Node& scalar) const {
    const std::string& tag = scalar.Tag();
    const std::string& text = scalar.Scalar();
    if (tag != "?" && tag != "!" && tag != "tag:yaml.org,2002:str") {
      throw refused(scalar, ErrorCode::kUnsupported, "values with a tag are not followed: " + tag);
    }
    // What a flow mapping reads otherwise can be no number either.
    const bool plain = tag == "?" && text.find_first_of(",[]{}\n") == text.npos;
    return plain || is_text_everywhere(text) ? text : json_quoted(text);
  }

  std::string text(const YAML::Node& node, size_t depth) {
    enter(node, depth);
    if (node.IsNull()) return "null";
    if (node.IsScalar()) return scalar_text(node);
    std::string out;
    std::set<std::string> seen;
    for (const auto& item : node) {
      out += out.empty() ? "" : ", ";
      out += node.IsSequence() ? text(item, depth + 1)
                               : key_text(item.first, seen) + ": " + text(item.second, depth + 1);
    }
    return node.IsSequence() ? "[" + out + "]" : "{" + out + "}";
  }

  const std::string& path_;
  size_t values_ = 0;
  std::vector<YamlLeaf> out_;
};

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

std::vector<YamlLeaf> read_yaml_leaves(const std::string& path) {
  LeafReader reader(path);
  try {
    return reader.read();
  } catch (const YAML::Exception& e) {
    throw reader.refused(e.mark, ErrorCode::kCorrupt, "no YAML: " + e.msg);
  }
}

}  // namespace rlreplay::replay

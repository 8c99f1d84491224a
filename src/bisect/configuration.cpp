#include "src/bisect/configuration.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/words.h"
#include "src/replay/options/yaml_settings.h"

namespace rlreplay::bisect {
namespace {

/// A number, true, false or null as it stands, else a text.
std::string json_of(const std::string& text) {
  try {
    const JsonDocument document = JsonDocument::parse(text, "a setting");
    const JsonValue value = document.root();
    if (!value.is_object() && !value.is_array() && !value.is_string()) return value.dump();
  } catch (const Error&) {
  }
  return json_quoted(text);
}

void add_values(const JsonValue& value, const KeyPath& path, Configuration& to) {
  if (!value.is_object() || value.members().empty()) {
    to.values[path] = value.dump();
    return;
  }
  for (const auto& [name, member] : value.members()) {
    KeyPath below = path;
    below.emplace_back(name);
    add_values(member, below, to);
  }
}

using Place = std::map<KeyPath, std::string>::const_iterator;

/// The object of values whose paths begin alike in `depth` names.
std::string object_text(Place begin, Place end, size_t depth) {
  std::string out;
  while (begin != end) {
    const std::string& name = begin->first[depth];
    const Place next =
        std::find_if(begin, end, [&](const auto& v) { return v.first[depth] != name; });
    const bool leaf = begin->first.size() == depth + 1;
    out += (out.empty() ? "" : ",") + json_quoted(name) + ":" +
           (leaf ? begin->second : object_text(begin, next, depth + 1));
    begin = next;
  }
  return "{" + out + "}";
}

}  // namespace

Configuration parse_configuration(const std::string& text) {
  Configuration out;
  std::istringstream settings(text);
  for (std::string setting; std::getline(settings, setting, ',');) {
    const size_t sign = setting.find('=');
    if (sign == 0 || sign == setting.npos) {
      throw Error(ErrorCode::kUsage, "settings are KEY=VALUE, with commas between them", text);
    }
    out.values[{setting.substr(0, sign)}] = json_of(setting.substr(sign + 1));
  }
  return out;
}

bool is_configuration_file(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  return ending == ".json" || ending == ".yaml" || ending == ".yml" || ending == ".toml";
}

Configuration read_configuration(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  Configuration out;
  if (ending == ".json") {
    const JsonDocument document = JsonDocument::read(path);
    if (!document.root().is_object()) throw document.root().error("settings are an object");
    add_values(document.root(), {}, out);
    return out;
  }
  if (ending == ".toml") {
    throw Error(ErrorCode::kUnsupported,
                "settings are read from JSON, or YAML of one flat mapping: write them as one",
                path);
  }
  out.form = Configuration::Form::kYaml;
  for (const auto& placed : replay::read_yaml_settings(path)) {
    out.values[{placed.setting.first}] = json_of(placed.setting.second);
  }
  return out;
}

std::string file_text(const Configuration& configuration) {
  if (configuration.form == Configuration::Form::kJson) {
    return object_text(configuration.values.begin(), configuration.values.end(), 0) + "\n";
  }
  std::string out;
  for (const auto& [path, value] : configuration.values) out += path[0] + ": " + value + "\n";
  return out;
}

std::string key_name(const KeyPath& path) { return joined(path, "."); }

std::string KeyDifference::describe() const {
  return key_name(path) + ": " + good.value_or("not set") + " -> " + bad.value_or("not set");
}

std::vector<KeyDifference> differences_of(const Configuration& good, const Configuration& bad) {
  std::vector<KeyDifference> out;
  std::set<KeyPath> paths;
  for (const auto* side : {&good, &bad}) {
    for (const auto& [path, value] : side->values) paths.insert(path);
  }
  const auto value_of = [](const Configuration& side, const KeyPath& path) {
    const auto at = side.values.find(path);
    return at == side.values.end() ? std::nullopt : std::optional(at->second);
  };
  for (const KeyPath& path : paths) {
    const auto a = value_of(good, path), b = value_of(bad, path);
    if (a != b) out.push_back({path, a, b});
  }
  return out;
}

Configuration with_differences(Configuration good, const std::vector<KeyDifference>& differences,
                               const std::set<size_t>& chosen) {
  for (const size_t i : chosen) {
    const KeyDifference& difference = differences.at(i);
    if (difference.bad) {
      good.values[difference.path] = *difference.bad;
    } else {
      good.values.erase(difference.path);
    }
  }
  return good;
}

}  // namespace rlreplay::bisect

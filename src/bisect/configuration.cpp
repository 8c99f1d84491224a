#include "src/bisect/configuration.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "src/base/atomic_file.h"
#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/words.h"
#include "src/replay/options/yaml_file.h"

namespace rlreplay::bisect {
namespace {

/// A number, true, false or null as it stands, else a text.
std::string json_of(const std::string& text) {
  try {
    const JsonDocument document = JsonDocument::parse(text, "a setting");
    const JsonValue value = document.root();
    if (!value.is_object() && !value.is_array() && !value.is_string()) return value.dump();
  } catch (const Error&) {  // what is no JSON is a text
  }
  return json_quoted(text);
}

void add_values(const JsonValue& value, const KeyPath& path, Configuration& to) {
  if (!value.is_object() || (value.members().empty() && !path.empty())) {
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
using Form = Configuration::Form;

/// The object of values whose paths begin alike in `depth` names.
std::string object_text(Place begin, Place end, size_t depth, Form form) {
  const bool json = form == Form::kJson;
  std::string out;
  while (begin != end) {
    const std::string& name = begin->first[depth];
    const Place next =
        std::find_if(begin, end, [&](const auto& v) { return v.first[depth] != name; });
    const bool leaf = begin->first.size() == depth + 1;
    out += (out.empty() ? ""
            : json      ? ","
                        : ", ") +
           (json ? json_quoted(name) + ":" : name + ": ") +
           (leaf ? begin->second : object_text(begin, next, depth + 1, form));
    begin = next;
  }
  return "{" + out + "}";
}

bool leads_to(const KeyPath& begin, const KeyPath& path) {
  return begin.size() <= path.size() && std::equal(begin.begin(), begin.end(), path.begin());
}

/// The values at and below a path, which lie beside each other.
std::pair<Place, Place> values_below(const Configuration& configuration, const KeyPath& path) {
  const Place begin = configuration.values.lower_bound(path);
  return {begin, std::find_if(begin, configuration.values.end(),
                              [&](const auto& v) { return !leads_to(path, v.first); })};
}

std::optional<std::string> value_at(const Configuration& configuration, const KeyPath& path) {
  const auto [begin, end] = values_below(configuration, path);
  if (begin == end) return std::nullopt;
  if (begin->first == path) return begin->second;
  return object_text(begin, end, path.size(), configuration.form);
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
    if (!document.root().is_object()) {
      throw document.root().error("found " + document.root().dump().substr(0, 100) +
                                  ", expected the settings as an object");
    }
    add_values(document.root(), {}, out);
    return out;
  }
  if (ending == ".toml") {
    throw Error(ErrorCode::kUnsupported, "settings are read from JSON or YAML: write them as one",
                path);
  }
  out.form = Form::kYaml;
  for (const auto& leaf : replay::read_yaml_leaves(path)) out.values[leaf.keys] = leaf.text;
  return out;
}

std::string file_text(const Configuration& configuration) {
  const auto& values = configuration.values;
  if (configuration.form == Form::kJson || values.empty()) {
    return object_text(values.begin(), values.end(), 0, configuration.form) + "\n";
  }
  std::string out, last;
  for (const auto& [path, value] : values) {
    if (!out.empty() && path[0] == last) continue;
    last = path[0];
    out += last + ": " + *value_at(configuration, {last}) + "\n";
  }
  return out;
}

std::string write_configuration(const Configuration& configuration, const std::string& folder) {
  const std::string path =
      folder + (configuration.form == Form::kYaml ? "/config.yaml" : "/config.json");
  AtomicFile file(path);
  file.write(file_text(configuration));
  file.commit();
  return path;
}

Configuration configuration_of(const std::string& end) {
  return is_configuration_file(end) ? read_configuration(end) : parse_configuration(end);
}

std::string key_name(const KeyPath& path) {
  std::vector<std::string> names;
  for (const std::string& name : path) {
    const bool clear = !name.empty() && (name[0] == '"' || name.find('.') == name.npos);
    names.push_back(clear ? name : json_quoted(name));
  }
  return joined(names, ".");
}

std::string KeyDifference::describe() const {
  return key_name(path) + ": " + good.value_or("not set") + " -> " + bad.value_or("not set");
}

std::vector<KeyDifference> differences_of(const Configuration& good, const Configuration& bad) {
  if (good.form != bad.form) {
    throw Error(ErrorCode::kUsage,
                "one configuration is YAML and the other JSON or KEY=VALUE, and a run reads one "
                "form: write both in one");
  }
  std::set<KeyPath> paths;
  for (const auto* side : {&good, &bad}) {
    for (const auto& [path, value] : side->values) paths.insert(path);
  }
  std::vector<KeyDifference> out;
  for (const KeyPath& path : paths) {
    // A value here that is a mapping there is one difference.
    if (!out.empty() && leads_to(out.back().path, path)) continue;
    const auto a = value_at(good, path), b = value_at(bad, path);
    if (a != b) out.push_back({path, a, b});
  }
  return out;
}

Configuration with_differences(Configuration good, const std::vector<KeyDifference>& differences,
                               const std::set<size_t>& chosen) {
  for (const size_t i : chosen) {
    const KeyDifference& difference = differences.at(i);
    const auto [begin, end] = values_below(good, difference.path);
    good.values.erase(begin, end);
    if (difference.bad) good.values[difference.path] = *difference.bad;
  }
  return good;
}

}  // namespace rlreplay::bisect

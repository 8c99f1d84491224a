#include "src/replay/config_file.h"

#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/replay/yaml_settings.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

/// A scalar as set_option takes it; a list's elements joined by commas.
std::string scalar_text(const JsonValue& value) {
  if (value.is_string()) return value.string();
  if (!value.is_array()) return value.dump();
  std::string out;
  for (size_t i = 0; i < value.size(); ++i) out += (i == 0 ? "" : ",") + value.at(i).dump();
  return out;
}

std::vector<Setting> json_settings(const JsonValue& root) {
  if (!root.is_object()) throw root.error("a configuration is an object of options");
  std::vector<Setting> out;
  for (const auto& [key, value] : root.members()) {
    if (value.is_object()) throw value.error("an option's value is no object");
    out.emplace_back(key, value.is_null() ? "none" : scalar_text(value));
  }
  return out;
}

bool is_json(const std::string& path) { return path.ends_with(".json"); }

/// Texts are quoted where YAML would read something else.
std::string yaml_text(const Option& option, const std::string& text) {
  const bool is_text = std::holds_alternative<std::string RunOptions::*>(option.field) ||
                       std::holds_alternative<std::vector<int64_t> RunOptions::*>(option.field);
  return is_text ? json_quoted(text) : text;
}

std::vector<PlacedSetting> placed_settings(const std::string& path) {
  if (!is_json(path)) return read_yaml_settings(path);
  const JsonDocument document = JsonDocument::read(path, {kMaxBytes, 8, /*unique_keys=*/true});
  std::vector<PlacedSetting> out;
  for (Setting& setting : json_settings(document.root())) {
    out.push_back({std::move(setting), path});
  }
  return out;
}

}  // namespace

std::vector<Setting> read_config_file(const std::string& path) {
  std::vector<Setting> out;
  for (PlacedSetting& one : placed_settings(path)) out.push_back(std::move(one.setting));
  return out;
}

void apply_config_file(RunOptions& options, const std::string& path) {
  for (const PlacedSetting& one : placed_settings(path)) {
    try {
      apply_settings(options, {&one.setting, 1});
    } catch (const Error& error) {
      throw Error(error.code(), error.what(), one.where);
    }
  }
}

std::vector<Setting> parse_options_json(std::string_view text, const std::string& where) {
  const JsonDocument document = JsonDocument::parse(text, where, {kMaxBytes, 8, true});
  return json_settings(document.root());
}

std::string options_yaml(const RunOptions& options) {
  std::string out;
  Section section = Section::kRecord;
  for (const Option& option : option_table()) {
    if (out.empty() || option.section != section) {
      section = option.section;
      out += (out.empty() ? "# " : "\n# ") + std::string(title(section)) + "\n";
    }
    out += std::string(option.name) + ": " + yaml_text(option, option_text(options, option)) + "\n";
  }
  return out;
}

}  // namespace rlreplay::replay

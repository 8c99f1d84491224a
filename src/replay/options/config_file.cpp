#include "src/replay/options/config_file.h"

#include <algorithm>
#include <functional>
#include <map>

#include "src/base/ascii.h"
#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/json_value.h"
#include "src/replay/options/yaml_file.h"

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

/// `where`: the place of a key.
std::vector<Setting> json_settings(const JsonValue& root,
                                   const std::function<std::string(std::string_view key)>& where) {
  if (!root.is_object()) throw root.error("a configuration is an object of options");
  std::vector<Setting> out;
  for (const auto& [key, value] : root.members()) {
    if (value.is_object()) {
      throw Error(ErrorCode::kCorrupt,
                  std::string(key) + ": an option's value is a scalar or a list", where(key));
    }
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

/// The line on which each key of a JSON text's outermost object begins.
std::map<std::string, size_t, std::less<>> key_lines(std::string_view text) {
  std::map<std::string, size_t, std::less<>> out;
  size_t line = 1;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line;
    if (text[i] == '{' || text[i] == '[') ++depth;
    if (text[i] == '}' || text[i] == ']') --depth;
    if (text[i] != '"') continue;
    const size_t begin = i + 1;
    for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
    const size_t behind = text.find_first_not_of(" \t\r\n", i + 1);
    if (depth == 1 && behind != text.npos && text[behind] == ':') {
      out.emplace(text.substr(begin, i - begin), line);
    }
  }
  return out;
}

std::vector<PlacedSetting> json_file_settings(const std::string& path) {
  const std::string text = read_file(path, kMaxBytes, "a configuration");
  const auto lines = key_lines(text);
  const auto where = [&](std::string_view key) {
    const auto line = lines.find(key);
    return line == lines.end() ? path : path + ":" + std::to_string(line->second);
  };
  const JsonDocument document = JsonDocument::parse(text, path, {kMaxBytes, 8, true});
  std::vector<PlacedSetting> out;
  for (Setting& setting : json_settings(document.root(), where)) {
    std::string place = where(setting.first);
    out.push_back({std::move(setting), std::move(place)});
  }
  return out;
}

/// An option that is set twice would be what it is by the order of lines.
void check_unique(const std::vector<PlacedSetting>& settings) {
  std::map<const Option*, std::string> seen;
  for (const PlacedSetting& one : settings) {
    const Option* option = find_option(one.setting.first);
    if (option == nullptr) continue;
    const auto [first, fresh] = seen.emplace(option, one.where);
    if (fresh) continue;
    throw Error(ErrorCode::kCorrupt,
                "--" + std::string(option->name) + " is set twice, first at " + first->second,
                one.where);
  }
}

std::vector<PlacedSetting> placed_settings(const std::string& path) {
  std::vector<PlacedSetting> out =
      is_json(path) ? json_file_settings(path) : read_yaml_settings(path);
  check_unique(out);
  return out;
}

/// Whether a sentence names the option: "--lr", and not "--lr-decay-style".
bool names(std::string_view sentence, std::string_view option) {
  const std::string flag = "--" + std::string(option);
  for (size_t at = 0; (at = sentence.find(flag, at)) != sentence.npos; at += flag.size()) {
    const size_t end = at + flag.size();
    const bool longer =
        end < sentence.size() && (sentence[end] == '-' || is_word_character(sentence[end]));
    if (!longer) return true;
  }
  return false;
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
      throw error.at(one.where);
    }
  }
}

Error placed_in_config(const Error& error, const std::string& path,
                       std::span<const Setting> given) {
  if (!error.where().empty()) return error;
  for (const PlacedSetting& one : placed_settings(path)) {
    const Option* option = find_option(one.setting.first);
    const bool overridden = std::ranges::any_of(
        given, [&](const Setting& flag) { return find_option(flag.first) == option; });
    if (option == nullptr || overridden || !names(error.what(), option->name)) continue;
    return error.at(one.where);
  }
  return error;
}

std::vector<Setting> parse_options_json(std::string_view text, const std::string& where) {
  const JsonDocument document = JsonDocument::parse(text, where, {kMaxBytes, 8, true});
  return json_settings(document.root(),
                       [&](std::string_view key) { return where + " /" + std::string(key); });
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

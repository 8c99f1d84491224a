#include "src/replay/verbs/help.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "src/base/ascii.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kWidest = 80, kNarrowest = 40;
constexpr size_t kColumn = 28;  // where descriptions begin

/// COLUMNS is set by shells and by whoever wants another width.
size_t help_width() {
  const char* text = std::getenv("COLUMNS");
  size_t columns = kWidest;
  if (text != nullptr) std::from_chars(text, text + std::char_traits<char>::length(text), columns);
  return std::clamp(columns, kNarrowest, kWidest);
}

/// "  name    description", the description in its column.
std::string entry(const std::string& name, const std::string& text, size_t width) {
  const size_t column = std::min(kColumn, width / 2);
  std::string out = "  " + name;
  if (out.size() + 2 > column) out += "\n";
  const size_t begun = out.back() == '\n' ? 0 : out.size();
  return out + std::string(column - begun, ' ') + wrapped(text, width, column) + "\n";
}

/// Paragraphs are filled; lines that are indented are examples and stay as they are.
std::string filled(const std::string& text, size_t width) {
  std::string out, paragraph;
  const auto end = [&] {
    if (!paragraph.empty()) out += wrapped(paragraph, width) + "\n";
    paragraph.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const size_t stop = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, stop - at);
    at = stop + 1;
    if (line.empty() || line[0] == ' ') {
      end();
      out += line + "\n";
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    }
  }
  end();
  return out;
}

/// What a value is called: "--lr X".
std::string value_name(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  const std::string type = option.get_type_name().substr(0, option.get_type_name().find(':'));
  std::string name = type;
  if (type == "INT" || type == "UINT") name = "N";
  if (type == "FLOAT") name = "X";
  const bool several = option.get_expected_max() > 1;
  return " " + name + (several ? "..." : "");
}

std::vector<std::string> dashed_names(const CLI::Option& option) {
  std::vector<std::string> out;
  for (const std::string& name : option.get_snames()) out.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.push_back("--" + name);
  return out;
}

std::string option_name(const CLI::Option& option) {
  std::string out;
  for (const std::string& name : dashed_names(option)) out += (out.empty() ? "" : ", ") + name;
  return out + value_name(option);
}

std::string positional_name(const CLI::Option& option) {
  return upper_case(option.get_name(true, false)) + (option.get_expected_max() > 1 ? "..." : "");
}

std::string description(const CLI::Option& option) {
  return option.get_description() + (option.get_required() ? " (required)" : "");
}

std::string positionals(const CLI::App& app, size_t width) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() || option->get_group() == kHiddenGroup) continue;
    const bool named = option->nonpositional();
    out +=
        entry(positional_name(*option),
              description(*option) + (named ? "; also --" + option->get_lnames()[0] : ""), width);
  }
  return out.empty() ? "" : "\n" + out;
}

std::string groups(const CLI::App& app, size_t width, bool all) {
  std::string out;
  for (const std::string& group : app.get_groups()) {
    if (group == kHiddenGroup || (!all && group != "Options")) continue;
    std::string entries;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != group || option->get_positional()) continue;
      entries += entry(option_name(*option), description(*option), width);
    }
    if (!entries.empty()) out += "\n" + group + ":\n" + entries;
  }
  return out;
}

std::string synopsis(const CLI::App& app, std::string out) {
  if (!app.get_subcommands({}).empty()) out += app.get_parent() == nullptr ? " VERB" : " PART";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string one = positional_name(*option);
    out += option->get_required() ? " " + one : " [" + one + "]";
  }
  return out + " [options]";
}

std::string verbs(const CLI::App& app, size_t width) {
  std::string out;
  for (const CLI::App* verb : app.get_subcommands({})) {
    out += entry(verb->get_name(), verb->get_description(), width);
  }
  if (out.empty()) return "";
  return "\n" + std::string(app.get_parent() == nullptr ? "Verbs" : "Parts") + ":\n" + out;
}

/// The choices of an option, as CLI11 names what is checked: "TEXT:{slime,miles}".
std::vector<std::string> choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find(":{");
  if (open == type.npos) return {};
  const size_t end = type.find('}', open);
  std::vector<std::string> out;
  for (size_t at = open + 2; at < end;) {
    const size_t stop = std::min(type.find(',', at), end);
    out.push_back(type.substr(at, stop - at));
    at = stop + 1;
  }
  return out;
}

/// A JSON array of values that are JSON already.
std::string list_of(const std::vector<std::string>& values) {
  return "[" + joined(values, ",") + "]";
}

std::string option_json(const CLI::Option& option) {
  const std::string value = value_name(option);
  return JsonLine()
      .text("argument", option.get_positional() ? positional_name(option) : "")
      .json("names", json_list(dashed_names(option)))
      .text("value", value.empty() ? "" : value.substr(1))
      .json("choices", json_list(choices(option)))
      .text("group", option.get_group())
      .text("description", description(option))
      .str();
}

/// Arguments first, then group by group.
std::vector<std::string> options_json(const CLI::App& app) {
  std::vector<std::string> out;
  for (const bool positional : {true, false}) {
    for (const std::string& group : app.get_groups()) {
      for (const CLI::Option* option : app.get_options()) {
        if (group == kHiddenGroup || option->get_group() != group) continue;
        if (option->get_positional() == positional) out.push_back(option_json(*option));
      }
    }
  }
  return out;
}

JsonLine app_json(JsonLine line, const CLI::App& app) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) {
    verbs.push_back(app_json({}, *verb).str());
  }
  return line.text("name", full_name(app))
      .text("description", app.get_description())
      .text("usage", synopsis(app, full_name(app)))
      .json("options", list_of(options_json(app)))
      .text("footer", app.get_footer())
      .json("verbs", list_of(verbs));
}

}  // namespace

std::string full_name(const CLI::App& app) {
  const std::string own = app.get_name();
  return app.get_parent() == nullptr ? own : full_name(*app.get_parent()) + " " + own;
}

std::string help_json(const CLI::App& app) {
  return app_json(JsonLine().text("schema", "rlreplay.help/1"), app).str();
}

std::string Help::make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const {
  const size_t width = help_width();
  const bool all = mode == CLI::AppFormatMode::All;
  std::string out = wrapped(app->get_description(), width) + "\n" +
                    wrapped("usage: " + synopsis(*app, full_name(*app)), width) + "\n" +
                    positionals(*app, width) + groups(*app, width, all) + verbs(*app, width);
  const std::string footer = filled(app->get_footer(), width);
  if (!footer.empty()) out += "\n" + footer;
  return out;
}

}  // namespace rlreplay::replay

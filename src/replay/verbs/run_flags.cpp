#include "src/replay/verbs/run_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/config_file.h"
#include "src/replay/demo.h"
#include "src/replay/ignored_options.h"
#include "src/replay/models.h"

namespace rlreplay::replay {
namespace {

std::string flag_names(const Option& option) {
  std::string out = "--" + std::string(option.name);
  if (!option.alias.empty()) out += ",--" + std::string(option.alias);
  return out;
}

std::string help_text(const Option& option) {
  const std::string text = option_text(RunOptions{}, option);
  std::string out(option.help);
  if (!option.choices.empty()) out += ": " + std::string(option.choices);
  if (!text.empty() && text != "none" && text != "false") out += " [" + text + "]";
  return out;
}

/// What CLI11 left over: slime's options with their values, or a mistake.
void check_extras(const std::vector<std::string>& extras) {
  std::string ignored;
  for (size_t i = 0; i < extras.size(); ++i) {
    const std::string name = extras[i].substr(0, extras[i].find('='));
    if (!name.starts_with("--")) {
      throw Error(ErrorCode::kUsage, "unexpected argument \"" + extras[i] + "\"");
    }
    if (!is_ignored_option(std::string_view(name).substr(2))) refuse_option(name.substr(2));
    ignored += (ignored.empty() ? "" : ", ") + name;
    while (i + 1 < extras.size() && !extras[i + 1].starts_with("--")) ++i;
  }
  if (!ignored.empty()) std::cerr << "rlreplay: without effect here, ignored: " << ignored << '\n';
}

}  // namespace

void RunFlags::add(CLI::App& verb, std::span<const Section> sections,
                   const std::vector<std::string_view>& except, std::span<const Section> hidden) {
  verb_ = &verb;
  verb.allow_extras();
  for (const Option& option : option_table()) {
    if (std::find(sections.begin(), sections.end(), option.section) == sections.end()) continue;
    if (std::find(except.begin(), except.end(), option.name) != except.end()) continue;
    const std::string name(option.name);
    const bool flag = std::holds_alternative<bool RunOptions::*>(option.field);
    CLI::Option* added =
        flag ? verb.add_flag_callback(
                   flag_names(option), [this, name] { given_.emplace_back(name, "true"); },
                   help_text(option))
             : verb.add_option_function<std::string>(
                   flag_names(option),
                   [this, name](const std::string& text) { given_.emplace_back(name, text); },
                   help_text(option));
    const bool shown = std::ranges::find(hidden, option.section) == hidden.end();
    added->group(shown ? std::string(title(option.section)) : "");
    if (!flag) added->type_name("");
  }
  verb.add_option("--config", config_, "YAML or JSON file with the same names");
  verb.add_flag("--print-config", print_config_, "print every option as YAML and stop");
}

RunOptions RunFlags::resolve(RunOptions base) const {
  check_extras(verb_->remaining());
  if (!config_.empty()) apply_settings(base, read_config_file(config_));
  apply_settings(base, given_);
  check_options(base);
  return base;
}

RunOptions RunFlags::resolve_for_model() const {
  RunOptions base;
  RunOptions asked = base;
  if (!config_.empty()) apply_settings(asked, read_config_file(config_));
  apply_settings(asked, given_);
  if (asked.model == kDemo) apply_settings(base, demo_settings());
  return resolve(base);
}

std::string RunFlags::command_line() const {
  std::string out;
  if (!config_.empty()) out += " --config " + config_;
  for (const auto& [name, text] : given_) {
    const bool flag = std::holds_alternative<bool RunOptions::*>(find_option(name)->field);
    out += " --" + name + (flag ? "" : " " + text);
  }
  return out;
}

RunOptions RunFlags::resolve_record(const RunOptions& recorded) const {
  const RunOptions out = resolve(recorded);
  if (print_config_) return out;
  for (const Option& option : option_table()) {
    const std::string before = option_text(recorded, option), after = option_text(out, option);
    if (before == after) continue;
    std::cerr << "overridden: " << option.name << ": " << before << " -> " << after << '\n';
  }
  return out;
}

}  // namespace rlreplay::replay

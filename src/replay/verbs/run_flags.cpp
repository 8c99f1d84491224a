#include "src/replay/verbs/run_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <iostream>

#include "src/base/error.h"
#include "src/base/redact.h"
#include "src/base/shell.h"
#include "src/replay/launch/recorded_command.h"
#include "src/replay/options/config_file.h"
#include "src/replay/verbs/help.h"
#include "src/task/find_tokenizer.h"

namespace rlreplay::replay {
namespace {

std::string flag_names(const Option& option) {
  std::string out = "--" + std::string(option.name);
  if (!option.alias.empty()) out += ",--" + std::string(option.alias);
  return out;
}

/// "a|b"; a list that fits no line is given spaces to break at.
std::string choice_names(std::string_view choices) {
  std::string out;
  for (const char c : choices) out += c == '|' && choices.size() > 40 ? " | " : std::string(1, c);
  return out;
}

std::string help_text(const Option& option) {
  const std::string text = option_text(RunOptions{}, option);
  std::string out(option.help);
  if (!option.choices.empty()) out += ": " + choice_names(option.choices);
  if (!text.empty() && text != "none" && text != "false") out += " [" + text + "]";
  return out;
}

/// What a value is called in the help; choices as CLI11 writes those of a check: "TEXT:{hf,exact}".
std::string value_name(const Option& option) {
  if (!option.choices.empty()) {
    std::string choices(option.choices);
    std::ranges::replace(choices, '|', ',');
    return "TEXT:{" + choices + "}";
  }
  if (std::holds_alternative<std::vector<int64_t> RunOptions::*>(option.field)) return "N,N,...";
  if (std::holds_alternative<int64_t RunOptions::*>(option.field) ||
      std::holds_alternative<std::optional<int64_t> RunOptions::*>(option.field)) {
    return "N";
  }
  return std::holds_alternative<std::string RunOptions::*>(option.field) ? "TEXT" : "X";
}

}  // namespace

void RunFlags::add(CLI::App& verb, std::span<const Section> sections,
                   const std::vector<std::string_view>& except, std::span<const Section> hidden) {
  verb_ = &verb;
  // A verb that hides the optimizer's options computes no more than the objective.
  if (std::ranges::find(hidden, Section::kOptimizer) != hidden.end()) reach_ = Reach::kObjective;
  verb.allow_extras();
  for (const Option& option : option_table()) {
    if (std::find(sections.begin(), sections.end(), option.section) == sections.end()) continue;
    if (std::find(except.begin(), except.end(), option.name) != except.end()) continue;
    const std::string name(option.name);
    const bool flag = std::holds_alternative<bool RunOptions::*>(option.field);
    CLI::Option* added =
        flag ? verb.add_flag_function(
                   flag_names(option),
                   [this, name](int64_t count) {
                     given_.emplace_back(name, count > 0 ? "true" : "false");
                   },
                   help_text(option))
             : verb.add_option_function<std::string>(
                   flag_names(option),
                   [this, name](const std::string& text) { given_.emplace_back(name, text); },
                   help_text(option));
    const bool shown = std::ranges::find(hidden, option.section) == hidden.end();
    added->group(shown ? std::string(title(option.section)) : kHiddenGroup);
    if (!flag) added->type_name(value_name(option));
  }
  verb.add_option("--config", config_, "YAML or JSON file with the same names");
  verb.add_flag("--print-config", print_config_, "print every option as YAML and stop");
}

void RunFlags::check_launch_flags(Reach reach) const {
  std::vector<LaunchFlag> flags;
  std::string numbers, ignored;
  for (const std::string& word : verb_->remaining()) {
    const size_t end = std::min(word.find('='), word.size());
    flags.push_back({word.substr(2, end - 2), word.substr(std::min(end + 1, word.size()))});
    std::string& names = changes_numbers(flags.back()) ? numbers : ignored;
    names += (names.empty() ? "" : ", ") + word.substr(0, end);
  }
  const bool rewards =
      std::ranges::any_of(given_, [](const Setting& given) { return given.first == "reward"; });
  const std::string refused = refused_launch_flags(flags, reach, rewards);
  if (!refused.empty()) {
    throw Error(ErrorCode::kUsage, "numbers would be others than the launch script's: " + refused);
  }
  if (!numbers.empty()) {
    std::cerr
        << "rlreplay: numbers of the launch script's run, not followed (here the checkpoint says "
           "the model, and arithmetic is binary32): "
        << numbers << '\n';
  }
  if (!ignored.empty()) std::cerr << "rlreplay: without effect here, ignored: " << ignored << '\n';
}

RunOptions RunFlags::resolve(RunOptions base, Reach reach) const {
  check_launch_flags(reach);
  if (!config_.empty()) apply_config_file(base, config_);
  apply_settings(base, given_);
  check_places([&] {
    check_options(base);
    if (reach == Reach::kRollout) check_batches(base);
  });
  return base;
}

void RunFlags::check_places(const std::function<void()>& check) const {
  try {
    check();
  } catch (const Error& error) {
    if (config_.empty()) throw;
    throw placed_in_config(error, config_, given_);
  }
}

RunOptions RunFlags::resolve_for_model() const {
  RunOptions base;
  RunOptions asked = base;
  if (!config_.empty()) apply_config_file(asked, config_);
  apply_settings(asked, given_);
  if (asked.model == kDemo) apply_settings(base, demo_settings());
  const RunOptions out = resolve(base, Reach::kRollout);
  check_places([&] { check_on_policy(out); });
  return out;
}

std::string RunFlags::command_line() const {
  std::string out;
  if (!config_.empty()) out += " --config " + shell_word(config_);
  for (const auto& [name, text] : given_) {
    const bool flag = std::holds_alternative<bool RunOptions::*>(find_option(name)->field);
    out += " --" + name;
    if (flag && text == "true") continue;
    out += (flag ? "=" : " ") + shell_word(recorded_value("--" + name, text));
  }
  return out;
}

bool RunFlags::empty() const {
  return given_.empty() && config_.empty() && !print_config_ && verb_->remaining().empty();
}

bool RunFlags::gives(std::string_view name) const {
  const auto says = [option = find_option(name)](const Setting& setting) {
    return find_option(setting.first) == option;
  };
  return std::ranges::any_of(given_, says) ||
         (!config_.empty() && std::ranges::any_of(read_config_file(config_), says));
}

void RunFlags::check_given(const RunOptions& recorded, const std::string& where) const {
  std::vector<Setting> given = given_;
  if (!config_.empty()) {
    const std::vector<Setting> file = read_config_file(config_);
    given.insert(given.end(), file.begin(), file.end());
  }
  std::string missing;
  for (const char* name : {"reward-command", "save"}) {
    const Option& option = *find_option(name);
    const std::string text = recorded_text(recorded, option);
    const auto says = [&](const Setting& setting) {
      const bool copied = setting.second == text && text.find(kHidden) != text.npos;
      return find_option(setting.first) == &option && !copied;
    };
    if (text.empty() || std::any_of(given.begin(), given.end(), says)) continue;
    missing += " --" + std::string(name) + " " + shell_word(text);
  }
  if (missing.empty()) return;
  throw Error(ErrorCode::kUsage,
              "nothing is run or written because a file says so: if you know this run, give again" +
                  missing + (missing.find(kHidden) == missing.npos ? "" : " (*** was not kept)"),
              where);
}

RunOptions RunFlags::resolve_record(const RunOptions& recorded) const {
  const RunOptions out = resolve(recorded);
  if (print_config_) return out;
  for (const Option& option : option_table()) {
    const std::string before = recorded_text(recorded, option);
    const std::string after = recorded_text(out, option);
    if (before == after) continue;
    std::cerr << "overridden: " << option.name << ": " << before << " -> " << after << '\n';
  }
  return out;
}

RunOptions RunFlags::resolve_replay(const RunOptions& recorded, ReplayKind kind) const {
  RunOptions asked = recorded;
  if (!config_.empty()) apply_config_file(asked, config_);
  apply_settings(asked, given_);
  check_overrides(recorded, asked, kind);
  const RunOptions out = resolve(recorded);
  if (print_config_) return out;
  for (const std::string& line : override_lines(recorded, out, kind)) {
    std::cerr << "overridden: " << line << '\n';
  }
  return out;
}

}  // namespace rlreplay::replay

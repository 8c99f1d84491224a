#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/options/options.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShown = 60;  // columns of a text that is quoted

[[noreturn]] void refuse(const Option& option, std::string_view text, const std::string& expected) {
  throw Error(ErrorCode::kUsage, "--" + std::string(option.name) + " takes " + expected +
                                     ", not \"" + one_line(std::string(text), kShown) + "\"");
}

/// Sees that binary32 holds a value: one too small would be 0, which often means something else,
/// and one too large an infinity. Errors: kUsage.
void check_binary32(const Option& option, std::string_view text, double value) {
  const auto narrow = static_cast<float>(value);
  if (std::isfinite(narrow) && (narrow != 0 || value == 0)) return;
  refuse(option, text, "0 or a number that binary32 holds, 1.5e-45 to 3.4e38");
}

template <class Number>
Number parse(const Option& option, std::string_view text, const std::string& kind) {
  const auto parsed = parse_number<Number>(text);
  if (!parsed || !std::isfinite(static_cast<double>(*parsed))) refuse(option, text, kind);
  const Number value = *parsed;
  if (static_cast<double>(value) < option.min) {
    const bool positive = option.min > 0 && option.min < 1;
    refuse(option, text,
           positive ? kind + " above 0" : kind + " of at least " + shortest(option.min));
  }
  if (static_cast<double>(value) > option.max) {
    refuse(option, text, kind + " of at most " + shortest(option.max));
  }
  if (option.binary32) check_binary32(option, text, static_cast<double>(value));
  return value;
}

int64_t parse_integer(const Option& option, std::string_view text) {
  return parse<int64_t>(option, text, "a whole number");
}

double number_value(const Option& option, std::string_view text) {
  return parse<double>(option, text, "a number");
}

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const size_t end = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, end) == text) return true;
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return false;
}

std::vector<int64_t> parse_list(const Option& option, std::string_view text) {
  std::vector<int64_t> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(", "), text.size());
    if (end > 0) out.push_back(parse_integer(option, text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

struct Setter {
  RunOptions& options;
  const Option& option;
  std::string_view text;

  void operator()(bool RunOptions::*field) const {
    if (text != "true" && text != "false") refuse(option, text, "true or false");
    options.*field = text == "true";
  }
  void operator()(int64_t RunOptions::*field) const {
    options.*field = parse_integer(option, text);
  }
  void operator()(double RunOptions::*field) const { options.*field = number_value(option, text); }
  void operator()(std::string RunOptions::*field) const {
    if (!option.choices.empty() && !is_choice(option.choices, text)) {
      refuse(option, text, "one of " + std::string(option.choices));
    }
    options.*field = std::string(text);
  }
  void operator()(std::optional<int64_t> RunOptions::*field) const {
    options.*field = text == "none" ? std::nullopt : std::optional(parse_integer(option, text));
  }
  void operator()(std::optional<double> RunOptions::*field) const {
    options.*field = text == "none" ? std::nullopt : std::optional(number_value(option, text));
  }
  void operator()(std::vector<int64_t> RunOptions::*field) const {
    options.*field = parse_list(option, text);
  }
};

struct Printer {
  const RunOptions& options;

  std::string operator()(bool RunOptions::*field) const {
    return options.*field ? "true" : "false";
  }
  std::string operator()(int64_t RunOptions::*field) const { return shortest(options.*field); }
  std::string operator()(double RunOptions::*field) const { return shortest(options.*field); }
  std::string operator()(std::string RunOptions::*field) const { return options.*field; }
  std::string operator()(std::optional<int64_t> RunOptions::*field) const {
    return options.*field ? shortest(*(options.*field)) : "none";
  }
  std::string operator()(std::optional<double> RunOptions::*field) const {
    return options.*field ? shortest(*(options.*field)) : "none";
  }
  std::string operator()(std::vector<int64_t> RunOptions::*field) const {
    std::string out;
    for (const int64_t id : options.*field) out += (out.empty() ? "" : ",") + shortest(id);
    return out;
  }
};

}  // namespace

void set_option(RunOptions& options, const Option& option, std::string_view text) {
  std::visit(Setter{options, option, text}, option.field);
}

std::string option_text(const RunOptions& options, const Option& option) {
  return std::visit(Printer{options}, option.field);
}

std::vector<Setting> settings(const RunOptions& options) {
  std::vector<Setting> out;
  for (const Option& option : option_table()) {
    out.emplace_back(option.name, option_text(options, option));
  }
  return out;
}

void refuse_option(std::string_view name) {
  std::vector<std::string> names;
  for (const Option& option : option_table()) names.emplace_back(option.name);
  const auto meant = nearest(name, names);
  throw Error(ErrorCode::kUsage, "there is no option --" + one_line(std::string(name), kShown) +
                                     (meant ? ", did you mean --" + *meant + "?" : ""));
}

void apply_settings(RunOptions& options, std::span<const Setting> settings) {
  for (const auto& [name, text] : settings) {
    const Option* option = find_option(name);
    if (option == nullptr) refuse_option(name);
    set_option(options, *option, text);
  }
}

}  // namespace rlreplay::replay

#include "src/replay/verbs/command_line.h"

#include <algorithm>
#include <iostream>

#include "src/base/ascii.h"
#include "src/base/error.h"
#include "src/base/words.h"
#include "src/replay/launch/launch_flags.h"
#include "src/replay/verbs/help.h"

namespace rlreplay::replay {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kUsage, message); }

std::string see_help(const CLI::App& app) { return "; see " + full_name(app) + " --help"; }

/// ", did you mean x?", or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates,
                       const std::string& prefix = "") {
  const auto found = nearest(word, candidates);
  return found ? ", did you mean " + prefix + *found + "?" : "";
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* verb : app.get_subcommands({})) out.push_back(verb->get_name());
  return out;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back(name);
  }
  return out;
}

/// The verb that the words begin with, down to the last part of its name.
/// Errors: kUsage where there is none of that name: CLI11 would take the word for an argument.
CLI::App& find_verb(CLI::App& program, const std::vector<std::string>& words) {
  CLI::App* at = &program;
  for (size_t i = 0; !at->get_subcommands({}).empty(); ++i) {
    const std::vector<std::string> names = verb_names(*at);
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    if (i == words.size()) refuse("give a verb after " + full_name(*at) + ": " + list);
    const std::string& word = words[i];
    if (word.starts_with('-')) return *at;
    if (std::ranges::find(names, word) == names.end()) {
      const std::string meant = suggestion(word, names);
      refuse("there is no verb " + (at == &program ? word : at->get_name() + " " + word) +
             (meant.empty() ? "; there are: " + list : meant));
    }
    at = at->get_subcommand(word);
  }
  return *at;
}

/// `help VERB`, `help` and `version` as other programs have them.
void take_words_for_flags(std::vector<std::string>& words) {
  if (words.empty()) return;
  if (words[0] == "version") words[0] = "--version";
  if (words[0] != "help") return;
  words.erase(words.begin());
  words.push_back("--help");
}

/// "0.000000" as "0".
std::string trimmed(std::string number) {
  if (number.find('.') == number.npos) return number;
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  return number;
}

/// Our sentence for CLI11's "--threads: Value -1 not in range 0.000000 to 1797...".
std::string range_sentence(const std::string& name, const std::string& text) {
  const size_t value = text.find("Value ") + 6, range = text.find(" not in range ", value);
  const size_t low = range + 14, to = text.find(" to ", low);
  const std::string high = trimmed(text.substr(to + 4));
  const std::string least = trimmed(text.substr(low, to - low));
  return name + " takes a number " +
         (high.size() > 30 ? "of at least " + least : "from " + least + " to " + high) +
         ", not \"" + text.substr(value, range - value) + "\"";
}

/// Our sentence for CLI11's "--to: pt not in {slime,miles}".
std::string choice_sentence(const std::string& name, const std::string& text) {
  const size_t at = text.find(" not in {"), colon = text.find(": ");
  std::string choices = text.substr(at + 9);
  choices = choices.substr(0, choices.rfind('}'));
  for (size_t comma = 0; (comma = choices.find(',', comma)) != choices.npos; comma += 2) {
    choices.replace(comma, 1, ", ");
  }
  return name + " takes one of " + choices + ", not \"" + text.substr(colon + 2, at - colon - 2) +
         "\"";
}

std::string validation_sentence(const std::string& text) {
  const std::string name = text.substr(0, text.find(": "));
  if (text.find(" not in range ") != text.npos) return range_sentence(name, text);
  if (text.find(" not in {") != text.npos) return choice_sentence(name, text);
  return text;
}

std::string mismatch_sentence(const std::string& text) {
  const std::string name = text.substr(0, text.find(": "));
  if (text.find(": At Most 1 required") != text.npos) return name + " is given more than once";
  if (const size_t most = text.find(": At Most "); most != text.npos) {
    return "more than " + text.substr(most + 10, text.find(' ', most + 10) - most - 10) + " " +
           name;
  }
  if (text.find(": 1 required ") != text.npos) return name + " needs a value";
  if (text.find("disallowed flag override") != text.npos) {
    return text.substr(0, text.find(' ')) + " takes no value";
  }
  return text;
}

/// Our sentence for CLI11's "Could not convert: --tolerance = x".
std::string conversion_sentence(const std::string& text, const CLI::App& app) {
  const size_t colon = text.find(": "), equals = text.find(" = ");
  if (colon == text.npos || equals == text.npos) return text;
  const std::string name = text.substr(colon + 2, equals - colon - 2);
  const CLI::Option* option = app.get_option_no_throw(name);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  const std::string kind =
      type.starts_with("INT") || type.starts_with("UINT") ? "a whole number" : "a number";
  return name + " takes " + kind + ", not \"" + text.substr(equals + 3) + "\"";
}

std::string required_sentence(const std::string& text, const CLI::App& app) {
  const size_t at = text.find(" is required");
  if (at == text.npos) return text;
  std::string name = text.substr(0, at);
  const CLI::Option* option = app.get_option_no_throw(name);
  if (name == "--from" && option != nullptr && option->get_positional()) return "DUMP is missing";
  if (!name.starts_with('-')) name = upper_case(std::move(name));
  return name + " is missing";
}

std::string sentence(const CLI::ParseError& error, const CLI::App& app) {
  const std::string text = error.what(), kind = error.get_name();
  if (kind == "ValidationError") return validation_sentence(text);
  if (kind == "ArgumentMismatch") return mismatch_sentence(text);
  if (kind == "ConversionError") return conversion_sentence(text, app);
  if (kind == "RequiredError") return required_sentence(text, app);
  return text;
}

/// A script whose variable is not set gives an empty word where a path or a choice belongs; of
/// these an empty text is one.
constexpr std::string_view kMayBeEmpty[] = {
    "input-key", "label-key", "reason", "reward-key", "reward-command", "rollout-stop-token-ids"};

void check_not_empty(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const bool empty = std::ranges::find(option->results(), "") != option->results().end();
    const std::string name = option->get_single_name();
    if (!empty || std::ranges::find(kMayBeEmpty, name) != std::end(kMayBeEmpty)) continue;
    refuse(option->get_name() + " is an empty text: give it a value, or leave it out" +
           see_help(app));
  }
}

/// What was left over: flags of launch scripts, or mistakes, which are all named at once.
void check_left(const CLI::App& app, const std::vector<std::string>& left) {
  const std::vector<std::string> names = option_names(app);
  std::string unknown, stray;
  for (const std::string& word : left) {
    if (word == "--") continue;
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with('-') || flag == "-") {
      stray += (stray.empty() ? "\"" : ", \"") + word + "\"";
    } else if (!flag.starts_with("--") || !launch_flag_values(flag.substr(2)) ||
               !app.get_allow_extras()) {
      const size_t dashes = std::min(flag.find_first_not_of('-'), flag.size());
      unknown += (unknown.empty() ? "" : "; ") + std::string("there is no option ") + flag +
                 suggestion(flag.substr(dashes), names, "--");
    }
  }
  if (!unknown.empty()) refuse(unknown + see_help(app));
  if (!stray.empty()) refuse("unexpected argument " + stray + see_help(app));
}

}  // namespace

void set_up_help(CLI::App& program) {
  program.formatter(std::make_shared<Help>());
  program.set_help_flag("-h", "the verb's own options");
  program.set_help_all_flag("--help", "every option");
}

std::optional<int> read_words(CLI::App& program, std::vector<std::string> words) {
  take_words_for_flags(words);
  if (words == std::vector<std::string>{"--help-json"}) {
    std::cout << help_json(program) << '\n';
    return 0;
  }
  CLI::App& verb = find_verb(program, words);
  if (verb.get_allow_extras()) {
    words = join_launch_flags(
        words, [&](const std::string& flag) { return verb.get_option_no_throw(flag) != nullptr; });
  }
  const bool extras = verb.get_allow_extras();
  verb.allow_extras();
  std::reverse(words.begin(), words.end());
  try {
    program.parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // help or version
    refuse(sentence(error, verb) + see_help(verb));
  }
  verb.allow_extras(extras);
  check_not_empty(verb);
  check_left(verb, verb.remaining());
  return std::nullopt;
}

}  // namespace rlreplay::replay

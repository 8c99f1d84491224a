#include "src/replay/launch/recorded_command.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "src/base/ascii.h"
#include "src/base/redact.h"
#include "src/replay/launch/launch.h"

namespace rlreplay::replay {
namespace {

/// Options of verbs beside those of runs, with a value and without. A test holds them to the helps.
// clang-format off
constexpr std::string_view kOwnOptions[] = {
    "-o", "--output", "--from", "--format", "--reward-key", "--rank", "--config", "--wrap",
    "--tokens", "--samples", "--sample", "--groups", "--rollout", "--step", "--inject", "--to",
    "--plot", "--tolerance", "--max-tokens", "--tensor", "--worst", "--temperature",
    "--weights-version", "--event", "--sort", "--reason", "--tokenizer",
    "--keep-samples", "--columns", "--try", "--ranks",
    "--without-sample", "--class", "--time-limit", "--until", "--owner", "--repeat",
    "--build", "--on-fail", "--strip", "--open", "--junit", "--sarif", "--gitlab",
    "--claim", "--dump", "--explain", "--earlier",
    "--ref"};
constexpr std::string_view kOwnFlags[] = {
    "--resume", "--force", "--json", "--print-config", "--each-step", "--stop-at-first", "--deep",
    "--all", "--forward", "--recovered", "--dry-run", "--trust-hashes", "--add-special", "--text",
    "--decode", "--check", "--quick", "--texts",
    "--strict", "--run-recorded", "--allow-changed", "--self-test", "--lift", "--github",
    "--list"};
// clang-format on

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_option_name(std::string_view name) {
  const auto plain = [](char c) { return is_word_character(c) || c == '-'; };
  return name.starts_with("--") && name.size() > 2 && std::ranges::all_of(name, plain);
}

/// How many values an option has that are settings of a run; nothing where it is not known.
std::optional<int> values_of(std::string_view name, CommandOf whose) {
  if (whose == CommandOf::kRlreplay && is_one_of(kOwnOptions, name)) return 1;
  if (whose == CommandOf::kRlreplay && is_one_of(kOwnFlags, name)) return 0;
  if (const auto values = recipe_values(name)) return values;
  const Option* option = name.starts_with("--") ? find_option(name.substr(2)) : nullptr;
  if (option == nullptr) return std::nullopt;
  return std::holds_alternative<bool RunOptions::*>(option->field) ? 0 : 1;
}

/// Goes through a command, word by word.
class Words {
 public:
  explicit Words(CommandOf whose) : whose_(whose) {}

  std::string take(const std::string& word) {
    if (word.size() > 1 && word[0] == '-') return take_option(word);
    if (values_left_ == 0) return take_other(word);
    --values_left_;
    return recorded_value(option_, word);
  }

 private:
  std::string take_option(const std::string& word) {
    option_ = word.substr(0, word.find('='));
    const std::optional<int> values = values_of(option_, whose_);
    unknown_ = !values;
    values_left_ = values.value_or(0);
    if (unknown_ && !is_option_name(option_)) return std::string(kHidden);
    if (option_.size() == word.size()) return option_;
    values_left_ = 0;
    const std::string value = word.substr(option_.size() + 1);
    return option_ + "=" + (unknown_ ? std::string(kHidden) : recorded_value(option_, value));
  }

  /// A word of no known option, kept where it is rlreplay's verb or path, or a launcher's program
  /// or script; else `***`.
  std::string take_other(const std::string& word) {
    const bool script = first_ || word.ends_with(".py") || word.ends_with(".sh");
    const bool kept = whose_ == CommandOf::kRlreplay ? !unknown_ : script && option_.empty();
    first_ = false;
    return kept ? redacted_word(word) : std::string(kHidden);
  }

  CommandOf whose_;
  bool first_ = true;
  std::string option_;    // the last one
  bool unknown_ = false;  // whether nothing is known of it
  int values_left_ = 0;   // that it takes
};

}  // namespace

std::vector<std::string> recorded_words(std::span<const std::string> words, CommandOf whose) {
  std::vector<std::string> out;
  Words known(whose);
  for (const std::string& word : words) {
    out.push_back(word == "--" ? word : known.take(word));
    if (word == "--" && whose == CommandOf::kRlreplay) break;  // a launcher's words follow
  }
  return out;
}

std::string recorded_value(std::string_view option, const std::string& value) {
  const bool command = option == "--reward-command" || option == "--reward_command";
  return command ? redacted_command(value) : redacted_address(value);
}

std::string recorded_text(const RunOptions& options, const Option& option) {
  const std::string whole = option_text(options, option);
  const std::string before(unmarked(whole));
  const std::string shown = recorded_value("--" + std::string(option.name), before);
  return shown == before ? whole : marked(shown, whole);
}

}  // namespace rlreplay::replay

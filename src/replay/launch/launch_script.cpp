#include "src/replay/launch/launch_script.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "src/base/error.h"
#include "src/base/shell.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = 1 << 20;
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+";

/// The text of a shell script; nothing for any other file.
std::optional<std::string> read_script(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed) || fs::file_size(path, failed) > kMaxBytes) {
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string first = text.substr(0, text.find('\n'));
  const bool shell = first.starts_with("#!") && first.find("sh") != first.npos;
  if (!file || !(shell || path.ends_with(".sh"))) return std::nullopt;
  return text;
}

/// The words of NAME="WORD WORD"; empty for any other word.
std::string_view assigned_words(std::string_view word) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view value = word.substr(std::min(equals + 1, word.size()));
  const bool name = equals > 0 && word.find_first_not_of(kNameCharacters) == equals;
  return name && value.find_first_of(" \t\n") != value.npos ? value : std::string_view();
}

bool is_all_arguments(std::string_view word) {
  constexpr std::string_view kAll[] = {"$@", "$*", "${@}", "${*}"};
  return std::ranges::find(kAll, word) != std::end(kAll) || word.starts_with("${@:");
}

bool is_message(const std::vector<std::string>& command) {
  constexpr std::string_view kMessages[] = {"echo", "printf", "logger"};
  return std::ranges::find(kMessages, command[0]) != std::end(kMessages);
}

/// Whether a command may be the one that trains: it names a program to run, and is no mere message.
bool starts_program(const std::vector<std::string>& command) {
  if (is_message(command)) return false;
  const auto names = [](std::string_view word) {
    constexpr std::string_view kStarters[] = {"exec", "-m",   "python",    "python3",   "torchrun",
                                              "ray",  "srun", "deepspeed", "accelerate"};
    return word.ends_with(".py") || word.ends_with(".sh") ||
           std::ranges::find(kStarters, word.substr(word.rfind('/') + 1)) != std::end(kStarters);
  };
  return is_all_arguments(command[0]) || std::ranges::any_of(command, names);
}

/// Reads commands, and what in them holds others: texts of variables and those behind -c.
class Reader {
 public:
  explicit Reader(LaunchScript& script) : script_(script) {}

  void read(std::string_view text) {
    bool array = false;
    for (const ShellPart& part : shell_parts(text)) {
      if (part.kind == ShellPart::Kind::kWord) {
        add(unquoted(part.text));
      } else if (part.kind == ShellPart::Kind::kOperator && !part.is_redirection()) {
        const bool opens = part.text == "(" && !command_.empty() && command_.back().ends_with('=');
        array = opens || (array && part.text != ")");
        if (opens) is_array_ = true;
        if (!array) end();
      }
    }
    end();
  }

 private:
  void add(const std::string& word) {
    const bool code = !command_.empty() && command_.back() == "-c";
    const std::string_view inner = code ? std::string_view(word) : assigned_words(word);
    command_.push_back(word);
    if (!is_message(command_)) note_variables(word);
    if (inner.empty()) {
      script_.words.push_back(word);
    } else {
      Reader(script_).read(inner);
    }
  }

  void note_variables(const std::string& word) {
    const bool taken = command_.size() > 1 && command_[0] == "unset";
    for (const std::string& name : recipe_variables()) {
      const auto value = taken && word == name ? std::string() : value_given(word, name);
      if (value) script_.variables.emplace_back(name, *value);
    }
  }

  void end() {
    const bool all = std::ranges::any_of(command_, is_all_arguments);
    if (all && (is_array_ || starts_program(command_))) script_.hands_on = true;
    command_.clear();
    is_array_ = false;
  }

  LaunchScript& script_;
  std::vector<std::string> command_;
  bool is_array_ = false;
};

LaunchScript parse(const std::string& path, const std::string& text) {
  LaunchScript out;
  out.path = path;
  Reader(out).read(text);
  return out;
}

/// The place of the text that a command runs a shell on, behind its -c; else the command's size.
size_t find_text(const std::vector<std::string>& command) {
  constexpr std::string_view kShells[] = {"bash", "sh", "dash", "zsh", "ksh"};
  const auto is_shell = [&](std::string_view word) {
    return std::ranges::find(kShells, word.substr(word.rfind('/') + 1)) != std::end(kShells);
  };
  size_t i = 0;
  while (i < command.size() && !is_shell(command[i])) ++i;
  for (++i; i + 1 < command.size() && command[i].find_first_of("-+") == 0; ++i) {
    const std::string& option = command[i];
    const bool is_long = option.starts_with("--");
    if (!is_long && option.find('c') != option.npos) return i + 1;
    if (option == "-o" || option == "-O" || option == "--rcfile") ++i;
  }
  return command.size();
}

}  // namespace

std::optional<std::string> value_given(std::string_view word, const std::string& name) {
  const auto up_to = [&](size_t begin, std::string_view end) {
    return std::string(word.substr(begin, word.find_first_of(end, begin) - begin));
  };
  if (word.starts_with(name + "=")) return std::string(word.substr(name.size() + 1));
  if (const size_t at = word.find("," + name + "="); at != word.npos) {
    return up_to(at + name.size() + 2, ",");
  }
  const std::string key = '"' + name + '"';
  const size_t at = word.find(key);
  const size_t colon = at == word.npos ? at : word.find_first_not_of(" \t\n", at + key.size());
  if (colon == word.npos || word[colon] != ':') return std::nullopt;
  const size_t begin = word.find_first_not_of(" \t\n", colon + 1);
  if (begin == word.npos || word[begin] != '"') return std::nullopt;
  return up_to(begin + 1, "\"");
}

std::optional<LaunchScript> find_script(const std::vector<std::string>& command) {
  const size_t text = find_text(command);
  if (text < command.size()) {
    LaunchScript out = parse(command[text - 2] + " " + command[text - 1], command[text]);
    if (!out.hands_on || text + 1 < command.size()) return out;
    throw Error(ErrorCode::kUsage,
                "the first word behind the text is its $0, and no argument: put one there, as in "
                "bash -c 'python3 train.py \"$@\"' run",
                out.path);
  }
  for (const std::string& word : command) {
    if (word.starts_with("--")) break;
    if (const auto found = read_script(word)) return parse(word, *found);
  }
  return std::nullopt;
}

}  // namespace rlreplay::replay

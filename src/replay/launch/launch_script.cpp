#include "src/replay/launch/launch_script.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

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

/// Whether a command may be the one that trains: it names a program to run, and is no mere message.
bool starts_program(const std::vector<std::string>& command) {
  constexpr std::string_view kMessages[] = {"echo", "printf", "logger"};
  if (std::ranges::find(kMessages, command[0]) != std::end(kMessages)) return false;
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
    if (inner.empty()) {
      script_.words.push_back(word);
    } else {
      Reader(script_).read(inner);
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

}  // namespace

std::optional<LaunchScript> find_script(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    if (word.starts_with("--")) break;
    if (const auto text = read_script(word)) return parse(word, *text);
  }
  return std::nullopt;
}

}  // namespace rlreplay::replay

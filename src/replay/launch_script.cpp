#include "src/replay/launch_script.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = 1 << 20;

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

/// Words between blanks and the brackets of arrays; quotes are taken off.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : line + " ") {
    if (std::string_view(" \t\r()").find(c) != std::string_view::npos) {
      if (!word.empty()) out.push_back(word);
      word.clear();
    } else if (c != '"' && c != '\'') {
      word += c;
    }
  }
  return out;
}

/// A line up to its comment.
std::string code_of(const std::string& line) {
  for (size_t at = line.find('#'); at != line.npos; at = line.find('#', at + 1)) {
    if (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t') return line.substr(0, at);
  }
  return line;
}

LaunchScript parse(const std::string& path, const std::string& text) {
  LaunchScript out;
  out.path = path;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string code = code_of(text.substr(at, end - at));
    at = end + 1;
    for (const char* all : {"$@", "${@", "$*", "${*"}) {
      out.hands_on = out.hands_on || code.find(all) != code.npos;
    }
    for (std::string& word : words_of(code)) {
      if (word != "\\") out.words.push_back(std::move(word));
    }
  }
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

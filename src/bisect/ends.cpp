#include "src/bisect/ends.h"

#include <filesystem>
#include <optional>

#include "src/base/error.h"
#include "src/bisect/configuration.h"

namespace rlreplay::bisect {
namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool fs_is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// `A/..B/` at the dots that leave a folder on both sides: their paths may have dots of their own.
std::optional<Ends> split_folders(const std::string& word) {
  for (size_t dots = word.find(".."); dots != word.npos; dots = word.find("..", dots + 1)) {
    Ends ends{Axis::kDumps, word.substr(0, dots), word.substr(dots + 2)};
    if (is_folder(ends.good) && is_folder(ends.bad)) return ends;
  }
  return std::nullopt;
}

/// `A.json..B.json`, likewise.
std::optional<Ends> split_files(const std::string& word) {
  for (size_t dots = word.find(".."); dots != word.npos; dots = word.find("..", dots + 1)) {
    Ends ends{Axis::kConfigurations, word.substr(0, dots), word.substr(dots + 2)};
    const auto is_file = [](const std::string& path) {
      return is_configuration_file(path) && fs_is_file(path);
    };
    if (is_file(ends.good) && is_file(ends.bad)) return ends;
  }
  return std::nullopt;
}

Ends split_names(const std::string& word) {
  const size_t dots = word.find("..");
  if (dots == word.npos) {
    throw Error(ErrorCode::kUsage, "there is one end only: write GOOD..BAD or GOOD BAD", word);
  }
  if (word.find("...", dots) == dots) {
    throw Error(ErrorCode::kUsage,
                "three dots name no range with a good and a bad end: write GOOD..BAD", word);
  }
  return {Axis::kRevisions, word.substr(0, dots), word.substr(dots + 2)};
}

/// Errors: kIncomplete where one end is a folder and nothing else, and the other nothing at all.
void check_folders(const Ends& ends, const std::function<bool(const std::string&)>& is_revision) {
  const bool good = is_folder(ends.good);
  const std::string& folder = good ? ends.good : ends.bad;
  const std::string& other = good ? ends.bad : ends.good;
  if (!is_folder(folder) || is_folder(other) || other.find('=') != other.npos) return;
  if (is_revision(folder) || is_revision(other)) return;
  throw Error(ErrorCode::kIncomplete, "there is no such folder to compare with " + folder, other);
}

Axis axis_of(const Ends& ends, const std::function<bool(const std::string&)>& is_revision) {
  if (is_folder(ends.good) && is_folder(ends.bad)) return Axis::kDumps;
  check_folders(ends, is_revision);
  const auto is_configuration = [&](const std::string& end) {
    if (is_configuration_file(end) && fs_is_file(end)) return true;
    return end.find('=') != end.npos && !is_revision(end);
  };
  for (const std::string& end : {ends.good, ends.bad}) {
    const bool named = is_configuration_file(end) && !is_configuration(end);
    if (!named || is_revision(end)) continue;
    throw Error(ErrorCode::kIncomplete, "there is no such file of settings", end);
  }
  const bool good = is_configuration(ends.good), bad = is_configuration(ends.bad);
  if (good != bad) {
    throw Error(ErrorCode::kUsage, "one end is a configuration, KEY=VALUE, and the other is not",
                ends.good + ".." + ends.bad);
  }
  return good ? Axis::kConfigurations : Axis::kRevisions;
}

}  // namespace

Ends parse_ends(std::span<const std::string> words,
                const std::function<bool(const std::string&)>& is_revision) {
  if (words.empty() || words.size() > 2) {
    throw Error(ErrorCode::kUsage, "ENDS is missing: write GOOD..BAD or GOOD BAD");
  }
  if (words.size() == 1) {
    if (auto files = split_files(words[0])) return *files;
    if (auto folders = split_folders(words[0])) return *folders;
  }
  Ends ends =
      words.size() == 1 ? split_names(words[0]) : Ends{Axis::kRevisions, words[0], words[1]};
  if (ends.good.empty()) ends.good = "HEAD";
  if (ends.bad.empty()) ends.bad = "HEAD";
  ends.axis = axis_of(ends, is_revision);
  return ends;
}

}  // namespace rlreplay::bisect

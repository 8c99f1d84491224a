#include "src/replay/gate/place.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "src/base/words.h"
#include "src/replay/gate/environment.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {
namespace {

constexpr std::string_view kEnding = ".txt", kTitle = "# rlreplay golden ";

/// What a golden file's lines begin with and hardly any other text's.
constexpr std::array<std::string_view, 7> kLines = {
    "about class ",           "about commit ",     "about program ",           "about contract ",
    "environment processor ", "environment libc ", "environment architecture "};

/// The first 16 KiB of a file; nothing where it cannot be read.
std::optional<std::string> head_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return std::nullopt;
  std::string head(size_t{1} << 14, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (file.bad()) return std::nullopt;
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

bool has_lines(const std::string& head) {
  const std::string lines = '\n' + head;
  return std::ranges::any_of(kLines, [&](std::string_view line) {
    return lines.find('\n' + std::string(line)) != lines.npos;
  });
}

/// Whether a text file without a golden one's first line was one before.
bool is_damaged(const std::string& path) {
  constexpr std::string_view kBlank(" \t\r\n\0", 5);
  std::error_code absent;
  const bool has_class = fs::path(path).filename().string().find('@') != std::string::npos;
  if (has_class || !fs::is_regular_file(path, absent)) return true;
  const std::optional<std::string> head = head_of(path);
  return !head || head->find_first_not_of(kBlank) == head->npos || kTitle.starts_with(*head) ||
         head->find("rlreplay golden ") != head->npos || has_lines(*head);
}

/// Adds what a folder and those in it hold. One that cannot be read hides no other.
void add_folder(const std::string& folder, FoundFiles& found) {
  std::error_code failed;
  fs::directory_iterator entry(folder, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) {
    const std::string path = entry->path().string();
    std::error_code absent;
    if (entry->is_directory(absent)) {
      if (!entry->is_symlink(absent)) add_folder(path, found);
    } else if (entry->path().extension() == kEnding) {
      auto& of = is_golden_file(path) ? found.files
                 : is_damaged(path)   ? found.damaged
                                      : found.others;
      of.push_back(path);
    }
  }
  if (failed) {
    found.unread.emplace_back(ErrorCode::kEnvironment,
                              "the folder cannot be read: " + failed.message(), folder);
  }
}

/// Adds what a path names.
void add_path(const std::string& path, FoundFiles& found) {
  std::error_code absent;
  if (!fs::exists(path, absent)) {
    found.unread.emplace_back(ErrorCode::kIncomplete, "there is no such golden file or folder",
                              path);
  } else if (!fs::is_directory(path, absent)) {
    found.files.push_back(path);
  } else {
    const size_t before = found.files.size() + found.damaged.size() + found.unread.size();
    add_folder(path, found);
    if (found.files.size() + found.damaged.size() + found.unread.size() != before) return;
    found.unread.emplace_back(ErrorCode::kIncomplete,
                              "there is no golden file in it: rlreplay golden record writes one",
                              path);
  }
}

/// Calls each file by the first of the names that its folder was given or found by, so that a
/// test's files stay together. A link is a file of its own.
void name_once(FoundFiles& found) {
  std::map<fs::path, std::string> folders;  // by where they are, what stands before a file's name
  for (auto* of : {&found.files, &found.damaged, &found.others}) {
    for (std::string& path : *of) {
      const size_t name = path.rfind('/') + 1;  // 0 without a folder
      const std::string folder = path.substr(0, name);
      std::error_code unreachable;
      fs::path place = fs::weakly_canonical(name == 0 ? "." : folder, unreachable);
      if (unreachable) place = folder;
      path = folders.try_emplace(place, folder).first->second + path.substr(name);
    }
  }
}

void sort_once(std::vector<std::string>& paths) {
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
}

/// The file of a test whose class stands first in `classes`; the others go to `instead`.
Choice choose_key(const std::string& test, const std::vector<Key>& keys,
                  const std::vector<std::string>& classes) {
  Choice out{test};
  const auto rank = [&](const Key& key) { return std::ranges::find(classes, key.class_name); };
  const auto best = std::ranges::min_element(keys, {}, rank);
  for (auto key = keys.begin(); key != keys.end(); ++key) {
    if (key == best && rank(*key) != classes.end()) {
      out.path = path_of(*key);
    } else {
      out.instead.push_back(path_of(*key));
    }
  }
  return out;
}

}  // namespace

Key key_of(const std::string& path) {
  if (!path.ends_with(kEnding) || path.size() == kEnding.size()) {
    throw Error(ErrorCode::kUsage, "a golden file's name ends in .txt", path);
  }
  const std::string stem = path.substr(0, path.size() - kEnding.size());
  const size_t name = stem.rfind('/') == stem.npos ? 0 : stem.rfind('/') + 1;
  const size_t at = stem.rfind('@');
  if (at == stem.npos || at < name) return {stem, kAnyClass};
  check_class(stem.substr(at + 1));
  if (stem.substr(at + 1) == kAnyClass) {
    throw Error(ErrorCode::kUsage, "a golden file of class any is named without @any", path);
  }
  return {stem.substr(0, at), stem.substr(at + 1)};
}

bool is_golden_file(const std::string& path) {
  std::error_code absent;
  if (!fs::is_regular_file(path, absent)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kTitle.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return file && begin == kTitle;
}

std::string path_of(const Key& key) {
  const bool any = key.class_name == kAnyClass;
  return key.test + (any ? "" : "@" + key.class_name) + std::string(kEnding);
}

bool was_golden_file(const std::string& path) {
  std::error_code absent;
  if (!fs::is_regular_file(path, absent)) return false;
  return is_golden_file(path) || has_lines(head_of(path).value_or(""));
}

std::vector<std::string> FoundFiles::all() const {
  std::vector<std::string> out;
  std::ranges::merge(files, damaged, std::back_inserter(out));
  out.erase(std::unique(out.begin(), out.end()), out.end());  // named itself, it is in both
  return out;
}

FoundFiles find_golden_files(const std::vector<std::string>& paths) {
  FoundFiles out;
  for (const std::string& path : paths) add_path(path, out);
  name_once(out);
  for (auto* of : {&out.files, &out.damaged, &out.others}) sort_once(*of);
  return out;
}

std::vector<std::string> golden_files(const std::vector<std::string>& paths) {
  FoundFiles found = find_golden_files(paths);
  if (!found.unread.empty()) throw found.unread.front();
  if (found.files.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "no golden file can be read there, and " + counted(found.damaged.size(), "file") +
                    " cannot: rlreplay golden fsck says why",
                paths.front());
  }
  return std::move(found.files);
}

std::vector<Choice> choose(const std::vector<std::string>& files,
                           const std::vector<std::string>& classes) {
  std::map<std::string, std::vector<Key>> tests;
  std::vector<Choice> out;
  for (const std::string& file : files) {
    try {
      Key key = key_of(file);
      tests[key.test].push_back(std::move(key));
    } catch (const Error&) {  // a name that is no key is said when the file is read
      out.push_back({file, file});
    }
  }
  for (const auto& [test, keys] : tests) out.push_back(choose_key(test, keys, classes));
  std::ranges::sort(out, {}, &Choice::test);
  return out;
}

}  // namespace rlreplay::gate

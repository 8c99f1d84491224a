#include "src/replay/gate/place.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "src/base/error.h"
#include "src/replay/gate/environment.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {
namespace {

constexpr std::string_view kEnding = ".txt", kTitle = "# rlreplay golden ";

void add_folder(const std::string& folder, std::vector<std::string>& files,
                std::vector<std::string>* others) {
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) {
    if (entry->path().extension() != kEnding || entry->is_directory()) continue;
    if (is_golden_file(entry->path().string())) {
      files.push_back(entry->path().string());
    } else if (others != nullptr) {
      others->push_back(entry->path().string());
    }
  }
  if (failed) throw Error(ErrorCode::kEnvironment, failed.message(), folder);
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

std::vector<std::string> golden_files(const std::vector<std::string>& paths,
                                      std::vector<std::string>* others) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    std::error_code absent;
    if (!fs::exists(path, absent)) {
      throw Error(ErrorCode::kIncomplete, "there is no such golden file or folder", path);
    }
    const size_t before = out.size();
    if (fs::is_directory(path, absent)) {
      add_folder(path, out, others);
      if (out.size() == before) {
        throw Error(ErrorCode::kIncomplete,
                    "there is no golden file in it: rlreplay golden record writes one", path);
      }
    } else {
      out.push_back(path);
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<std::string> damaged_golden_files(const std::vector<std::string>& others) {
  const auto is_damaged = [](const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    std::error_code absent;
    if (name.find('@') != name.npos || !fs::is_regular_file(path, absent)) return true;
    std::ifstream file(path, std::ios::binary);
    std::string head(size_t{1} << 14, '\0');
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<size_t>(file.gcount()));
    return head.find("rlreplay golden ") != head.npos ||
           head.find("about contract ") != head.npos || (!head.empty() && kTitle.starts_with(head));
  };
  std::vector<std::string> out;
  std::ranges::copy_if(others, std::back_inserter(out), is_damaged);
  return out;
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

#include "src/replay/gate/place.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/replay/gate/environment.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {
namespace {

constexpr std::string_view kEnding = ".txt", kTitle = "# rlreplay golden ";
constexpr const char* kPending = "rlreplay/pending/";

void add_folder(const std::string& folder, std::vector<std::string>& files,
                std::vector<std::string>* others) {
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) {
    if (!entry->is_regular_file() || entry->path().extension() != kEnding) continue;
    if (is_golden_file(entry->path().string())) {
      files.push_back(entry->path().string());
    } else if (others != nullptr) {
      others->push_back(entry->path().string());
    }
  }
  if (failed) throw Error(ErrorCode::kEnvironment, failed.message(), folder);
}

/// The folder of git of the checkout that a file lies in; empty: it lies in none.
fs::path git_folder(const fs::path& file) {
  std::error_code absent;
  for (fs::path at = file.parent_path(); !at.empty(); at = at.parent_path()) {
    const fs::path git = at / ".git";
    if (fs::is_directory(git, absent)) return git;
    if (fs::is_regular_file(git, absent)) {  // of a worktree: `gitdir: PATH`
      std::ifstream text(git);
      std::string word, path;
      if (text >> word && word == "gitdir:" && std::getline(text >> std::ws, path)) {
        return at / path;
      }
    }
    if (at == at.root_path()) break;
  }
  return {};
}

fs::path users_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string state = variable("XDG_STATE_HOME"); state.starts_with('/')) return state;
  if (const std::string home = variable("HOME"); home.starts_with('/')) {
    return fs::path(home) / ".local/state";
  }
  throw Error(ErrorCode::kEnvironment,
              "there is no place for pending golden files: set XDG_STATE_HOME or HOME");
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

std::vector<Choice> choose(const std::vector<std::string>& files,
                           const std::vector<std::string>& classes) {
  std::map<std::string, std::vector<Key>> tests;
  for (const std::string& file : files) {
    Key key = key_of(file);
    tests[key.test].push_back(std::move(key));
  }
  std::vector<Choice> out;
  for (const auto& [test, keys] : tests) {
    Choice choice{test};
    const auto rank = [&](const Key& key) { return std::ranges::find(classes, key.class_name); };
    const auto best = std::ranges::min_element(keys, {}, rank);
    for (auto key = keys.begin(); key != keys.end(); ++key) {
      if (key == best && rank(*key) != classes.end()) {
        choice.path = path_of(*key);
      } else {
        choice.instead.push_back(path_of(*key));
      }
    }
    out.push_back(std::move(choice));
  }
  return out;
}

std::string pending_path(const std::string& path) {
  const fs::path file = fs::weakly_canonical(path);
  const fs::path git = git_folder(file);
  const std::string name = file.filename().string();
  const std::string folder = hash_of(file.parent_path().string()).hex().substr(0, 16);
  return ((git.empty() ? users_folder() : git) / kPending / folder / name).string();
}

void write_pending(const std::string& pending, const Golden& candidate) {
  std::error_code failed;
  fs::create_directories(fs::path(pending).parent_path(), failed);
  if (failed) throw Error(ErrorCode::kEnvironment, failed.message(), pending);
  write(pending, candidate);
}

bool in_ci() {
  const char* value = std::getenv("CI");
  const std::string_view said = value == nullptr ? "" : value;
  return !said.empty() && said != "0" && said != "false";
}

}  // namespace rlreplay::gate

#include "src/replay/gate/pending.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "src/base/error.h"
#include "src/base/hash.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {
namespace {

constexpr const char* kPending = "rlreplay/pending/";
constexpr const char* kLogs = "rlreplay/logs/";
constexpr const char* kReplaces = "replaces";  // of a candidate: digest_of its golden file

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
  return {};
}

/// Where something of a golden file lies outside of the tree; empty where the user has no place for
/// it, and so nothing is there.
std::string find_kept(const char* kind, const std::string& path) {
  const fs::path file = fs::weakly_canonical(path);
  const fs::path git = git_folder(file);
  const fs::path base = git.empty() ? users_folder() : git;
  if (base.empty()) return {};
  const std::string name = file.filename().string();
  const std::string folder = hash_of(file.parent_path().string()).hex().substr(0, 16);
  return (base / kind / folder / name).string();
}

std::string find_pending(const std::string& path) { return find_kept(kPending, path); }

std::string find_log(const std::string& path) {
  const std::string out = find_kept(kLogs, path);
  return out.empty() ? out : fs::path(out).replace_extension("log").string();
}

std::string digest_of(const Golden& golden) { return hash_of(golden_text(file_of(golden))).hex(); }

bool replaces(const Golden& candidate, const std::string& path) {
  return about(candidate, kReplaces) == digest_of(read(path));
}

}  // namespace

std::string pending_path(const std::string& path) {
  std::string out = find_pending(path);
  if (!out.empty()) return out;
  throw Error(ErrorCode::kEnvironment,
              "there is no place for pending golden files: set XDG_STATE_HOME or HOME");
}

void keep_candidate(const std::string& path, const Golden& golden, Golden candidate) {
  const std::string to = pending_path(path);
  std::error_code failed;
  fs::create_directories(fs::path(to).parent_path(), failed);
  if (failed) throw Error(ErrorCode::kEnvironment, failed.message(), to);
  candidate.about[kReplaces] = digest_of(golden);
  write(to, candidate);
}

void drop_candidate(const std::string& path) {
  const std::string candidate = find_pending(path);
  std::error_code failed;
  if (!candidate.empty()) fs::remove(candidate, failed);
  if (failed) throw Error(ErrorCode::kEnvironment, failed.message(), candidate);
}

std::string keep_log(const std::string& path, const std::string& log) {
  const std::string to = in_ci() ? "" : find_log(path);
  if (to.empty()) return "";
  std::error_code failed;
  fs::create_directories(fs::path(to).parent_path(), failed);
  if (!failed) fs::copy_file(log, to, fs::copy_options::overwrite_existing, failed);
  return failed ? "" : to;
}

void drop_log(const std::string& path) {
  const std::string log = in_ci() ? "" : find_log(path);
  std::error_code ignored;
  if (!log.empty()) fs::remove(log, ignored);
}

Pending pending(const std::string& path) {
  const std::string candidate = find_pending(path);
  std::error_code absent;
  if (candidate.empty() || !fs::exists(candidate, absent)) return Pending::kNone;
  try {
    return replaces(read(candidate), path) ? Pending::kCurrent : Pending::kStale;
  } catch (const Error&) {  // a damaged file is not what its candidate was compared with
    return Pending::kStale;
  }
}

Golden read_candidate(const std::string& path) {
  Golden out = read(pending_path(path));
  if (!replaces(out, path)) {
    throw Error(ErrorCode::kIncomplete,
                "the file has changed since the check that left its candidate: check it again",
                path);
  }
  out.about.erase(kReplaces);
  return out;
}

std::vector<std::string> orphans(const std::vector<std::string>& files) {
  std::set<fs::path> folders;
  for (const std::string& file : files) folders.insert(fs::path(file).parent_path());
  std::vector<std::string> out;
  for (const fs::path& folder : folders) {
    std::error_code absent;
    const fs::path candidates = fs::path(find_pending((folder / "x").string())).parent_path();
    for (const auto& candidate : fs::directory_iterator(candidates, absent)) {
      const fs::path file = folder / candidate.path().filename();
      if (!fs::exists(file, absent)) out.push_back(file.string());
    }
  }
  std::ranges::sort(out);
  return out;
}

bool in_ci() {
  const char* value = std::getenv("CI");
  const std::string_view said = value == nullptr ? "" : value;
  return !said.empty() && said != "0" && said != "false";
}

}  // namespace rlreplay::gate

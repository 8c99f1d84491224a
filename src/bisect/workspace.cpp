#include "src/bisect/workspace.h"

#include <cstdio>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/temporary_folder.h"
#include "src/bisect/folder.h"

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

std::string make_kept_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) {
    throw Error(ErrorCode::kEnvironment, "cannot make this folder: " + failed.message(), path);
  }
  if (!fs::is_empty(path)) {
    throw Error(ErrorCode::kUsage, "the output folder must be new or empty", path);
  }
  return fs::canonical(path);
}

/// Removes what is in a folder but for some files.
void remove_others(const std::string& folder, const std::set<std::string>& kept) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path();
    const auto next = kept.lower_bound(path);
    if (next != kept.end() && *next == path) continue;
    if (entry.is_directory(ignored) && next != kept.end() && next->starts_with(path + "/")) {
      remove_others(path, kept);
    } else {
      remove_folder(path);
    }
  }
}

}  // namespace

Workspace::Workspace(const std::optional<std::string>& kept, const Interrupt& interrupt)
    : path_(kept ? make_kept_folder(*kept) : make_temporary_folder("rlbisect")),
      keep_all_(kept.has_value()),
      interrupt_(interrupt) {}

Workspace::~Workspace() {
  if (keep_all_) return;
  if (named_.empty() || interrupt_.signal() != 0) {
    remove_folder(path_);
  } else {
    remove_others(path_, named_);
  }
}

RunFolder Workspace::add_run(const std::string& name) {
  char number[16];
  std::snprintf(number, sizeof number, "/%03d-", ++runs_);
  RunFolder run{path_ + number + name};
  std::error_code failed;
  fs::create_directories(run.output(), failed);
  if (failed) {
    throw Error(ErrorCode::kEnvironment, "cannot make this folder: " + failed.message(), run.path);
  }
  return run;
}

void Workspace::drop_output(const RunFolder& run) const {
  if (!keep_all_) remove_folder(run.output());
}

std::string Workspace::name_log(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  named_.insert(path);
  return " (log: " + path + ")";
}

}  // namespace rlreplay::bisect

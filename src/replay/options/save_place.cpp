#include "src/replay/options/save_place.h"

#include <filesystem>
#include <iostream>

#include <unistd.h>

#include "format/dump_place.h"
#include "format/foreign/checkpoint.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const RunOptions& options, ErrorCode code, const std::string& message) {
  throw Error(code, "--save: " + message, options.save);
}

/// The folder itself or, where it is not there yet, the nearest one above that is.
fs::path nearest_folder(const fs::path& folder) {
  fs::path at = fs::absolute(folder).lexically_normal();
  while (!fs::exists(at) && at.has_relative_path()) at = at.parent_path();
  return at;
}

void check_place(const RunOptions& options) {
  std::error_code absent;
  if (fs::equivalent(options.save, options.model, absent)) {
    refuse(options, ErrorCode::kUsage,
           "a checkpoint is not written over the one that it comes from");
  }
  format::check_outside_dumps(options.save);
  const fs::path near = nearest_folder(options.save);
  if (!fs::is_directory(near)) {
    refuse(options, ErrorCode::kUsage, near.string() + " is no folder");
  }
  if (::access(near.c_str(), W_OK | X_OK) != 0) {
    throw environment_error("--save: " + near.string(), options.save);
  }
}

void check_occupied(const RunOptions& options, bool replace, const std::string& otherwise) {
  if (!fs::exists(options.save) || fs::is_empty(options.save)) return;
  if (!replace) {
    refuse(options, ErrorCode::kUsage, "the folder is not empty: choose another, or " + otherwise);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(options.save)) {
    if (foreign::is_checkpoint_file(entry.path().filename().string())) continue;
    refuse(options, ErrorCode::kUsage,
           "the folder holds " + entry.path().filename().string() +
               ", which is no file of a checkpoint and would be lost: move it away, or choose "
               "another folder");
  }
}

/// Removes the checkpoint that had the name before.
void remove_old(const std::string& old) {
  std::error_code ignored;
  for (fs::directory_iterator entry(old, ignored), end; entry != end; entry.increment(ignored)) {
    if (foreign::is_checkpoint_file(entry->path().filename().string())) {
      fs::remove(entry->path(), ignored);
    }
  }
  if (fs::is_empty(old, ignored)) return;
  std::cerr << "rlreplay: the replaced checkpoint had files of somebody else's: they are left in "
            << old << '\n';
}

}  // namespace

SavePlace::SavePlace(const RunOptions& options, bool replace, const std::string& otherwise)
    : path_(options.save) {
  if (path_.empty()) return;
  check_place(options);
  check_occupied(options, replace, otherwise);
  const fs::path folder = fs::absolute(path_).lexically_normal();
  std::error_code ignored;  // the staged folder says what is wrong
  fs::create_directories((folder.has_filename() ? folder : folder.parent_path()).parent_path(),
                         ignored);
  staged_ = std::make_unique<StagedFolder>(path_, StagedFolder::Unnamed::kRemoved);
  check_occupied(options, replace, otherwise);  // until the place was ours, others could save there
}

void SavePlace::save(const std::function<void(const std::string&)>& write) {
  if (!staged_) return;
  write(staged_->path());
  staged_->take_name(remove_old);
  staged_.reset();
}

}  // namespace rlreplay::replay

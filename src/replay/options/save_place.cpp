#include "src/replay/options/save_place.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;

/// The folder itself or, where it is not there yet, the nearest one above that is.
fs::path nearest_folder(const fs::path& folder) {
  fs::path at = fs::absolute(folder).lexically_normal();
  while (!fs::exists(at) && at.has_relative_path()) at = at.parent_path();
  return at;
}

}  // namespace

void check_save(const RunOptions& options, bool replace, const std::string& otherwise) {
  if (options.save.empty()) return;
  const auto refuse = [&](ErrorCode code, const std::string& message) {
    throw Error(code, "--save: " + message, options.save);
  };
  std::error_code absent;
  if (fs::equivalent(options.save, options.model, absent)) {
    refuse(ErrorCode::kUsage, "a checkpoint is not written over the one that it comes from");
  }
  const fs::path near = nearest_folder(options.save);
  if (!fs::is_directory(near)) refuse(ErrorCode::kUsage, near.string() + " is no folder");
  if (::access(near.c_str(), W_OK | X_OK) != 0) {
    refuse(ErrorCode::kEnvironment, near.string() + ": " + std::strerror(errno));
  }
  if (replace || !fs::exists(options.save) || fs::is_empty(options.save)) return;
  refuse(ErrorCode::kUsage, "the folder is not empty: choose another, or " + otherwise);
}

}  // namespace rlreplay::replay

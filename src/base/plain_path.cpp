#include "src/base/plain_path.h"

#include <filesystem>

#include "src/base/error.h"

namespace rlreplay {

std::string plain_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code problem;
  fs::path out = fs::weakly_canonical(fs::absolute(path), problem);
  if (problem) throw Error(ErrorCode::kEnvironment, problem.message(), path);
  if (!out.has_filename()) out = out.parent_path();
  return out.string();
}

}  // namespace rlreplay

#include "src/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/base/environment_error.h"
#include "src/base/leftovers.h"

namespace rlreplay {

namespace fs = std::filesystem;

std::string make_temporary_folder(const std::string& prefix) {
  std::error_code failed;
  const char* chosen = std::getenv("TMPDIR");
  const bool empty = chosen != nullptr && *chosen == '\0';  // means nothing, as to mktemp
  const fs::path parent = empty ? fs::path("/tmp") : fs::temp_directory_path(failed);
  std::string path = (failed ? fs::path() : fs::canonical(parent, failed)) / (prefix + "-XXXXXX");
  if (failed || ::mkdtemp(path.data()) == nullptr) {
    throw environment_error("cannot make a temporary folder (TMPDIR says where)",
                            failed && chosen != nullptr ? chosen : path,
                            failed ? failed.value() : errno);
  }
  return path;
}

TemporaryFolder::TemporaryFolder(const std::string& prefix, Left left) {
  const auto make = [&] {
    do {
      path_ = make_temporary_folder(prefix);
      lock_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (lock_ || errno == ENOENT) continue;  // another one took it for left behind already
      const Error failed = environment_error("cannot open the temporary folder", path_);
      ::rmdir(path_.c_str());  // which takes no descriptor: there may be none left
      throw failed;
    } while (!lock_ || !lock_own(lock_.get(), path_));
  };
  unfinished_.emplace([this] { remove_tree(path_); }, make);
  if (left == Left::kRemoved) remove_left_folders(fs::path(path_).parent_path().string(), prefix);
}

TemporaryFolder::~TemporaryFolder() {
  unfinished_.reset();
  remove_tree(path_);
}

void remove_tree(const std::string& path) noexcept {
  std::error_code problem;
  for (int tries = 0; tries < 1000; ++tries) {
    fs::remove_all(path, problem);
    if (!problem) return;
  }
}

}  // namespace rlreplay

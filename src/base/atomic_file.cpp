#include "src/base/atomic_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/leftovers.h"
#include "src/base/number_text.h"

namespace rlreplay {
namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// A name beside `path` that nobody can guess and put a link under.
std::string temporary_name(const std::string& path) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) {
    throw environment_error("the system gives no random bytes", path);
  }
  return path + ".tmp-" + hex(random, 16);
}

}  // namespace

std::string output_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (::lstat(path.c_str(), &info) != 0) return path;
    throw Error(ErrorCode::kUsage, "this is a link that leads nowhere: choose another name", path);
  }
  if (const std::string kind(special_kind(info.st_mode)); !kind.empty()) {
    throw Error(ErrorCode::kUsage, "this is " + kind + ", and a file is to be written here", path);
  }
  std::error_code problem;
  const auto target = std::filesystem::canonical(path, problem);
  return problem ? path : target.string();
}

void check_unoccupied(const std::string& path, bool replace) {
  namespace fs = std::filesystem;
  if (replace || !fs::exists(path) || (fs::is_directory(path) && fs::is_empty(path))) return;
  throw Error(ErrorCode::kUsage, "it is there already; --force replaces it", path);
}

AtomicFile::AtomicFile(const std::string& path, Left left) : path_(output_file(path)) {
  if (left == Left::kRemoved) remove_left_files(path_);
  unfinished_.emplace([this] { ::unlink(temporary_.c_str()); }, [this] { create(); });
}

void AtomicFile::create() {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  do {
    temporary_ = temporary_name(path_);
    file_ = Descriptor(::open(temporary_.c_str(), kFlags, 0666));
    if (!file_) fail("cannot create the file");
  } while (!lock_own(file_.get(), temporary_));
}

AtomicFile::~AtomicFile() {
  if (!file_) return;
  unfinished_.reset();
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const { throw environment_error(what, path_); }

void AtomicFile::write(std::string_view text) {
  write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  constexpr size_t kPiece = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kPiece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write the file");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) fail("cannot write the file to disk");
  unfinished_->finish([this] {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename the file");
  });
  file_.close();
  make_names_durable(folder_of(path_));
}

}  // namespace rlreplay

#include "src/base/input_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace rlreplay {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

[[noreturn]] void refuse(int why, const std::string& path) {
  const bool absent = why == ENOENT || why == ENOTDIR;
  throw Error(absent ? ErrorCode::kIncomplete : ErrorCode::kEnvironment,
              std::string("cannot read the file: ") + std::strerror(why), path);
}

void check_kind(const struct stat& info, const std::string& path) {
  const std::string kind(special_kind(info.st_mode));
  if (kind.empty()) return;
  throw Error(ErrorCode::kIncomplete,
              "cannot read the file: this is " + kind + ", a file is expected", path);
}

}  // namespace

std::string_view special_kind(unsigned mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

void check_regular_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) refuse(errno, path);
  check_kind(info, path);
}

std::string read_file(const std::string& path, size_t max_bytes, const std::string& what) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) refuse(errno, path);
  check_kind(info, path);
  std::string text;
  auto wanted = static_cast<size_t>(info.st_size);
  while (text.size() <= max_bytes && wanted <= max_bytes) {
    // Files of the kernel have no size; and one may have grown.
    const size_t begin = text.size();
    text.resize(std::max(wanted, begin + std::min(kPiece, max_bytes + 1 - begin)));
    const ssize_t got = ::read(file.get(), text.data() + begin, text.size() - begin);
    if (got < 0 && errno != EINTR) refuse(errno, path);
    text.resize(begin + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
  }
  throw Error(ErrorCode::kCorrupt,
              "the file has more bytes than " + what + " may have, " + std::to_string(max_bytes),
              path);
}

std::string plain_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code problem;
  fs::path out = fs::weakly_canonical(fs::absolute(path), problem);
  if (problem) throw Error(ErrorCode::kEnvironment, problem.message(), path);
  if (!out.has_filename()) out = out.parent_path();
  return out.string();
}

}  // namespace rlreplay

#include "src/base/bounded_log.h"

#include <algorithm>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rlreplay {
namespace {

constexpr off_t kKept = off_t{1} << 20;  // at each end
constexpr off_t kLongest = 4 * kKept;    // from where on a log is bounded
constexpr off_t kPortion = 16 * kKept;   // how much more than that may wait to be given back

/// Whether all of a text stands in a file, from a place on.
bool write_all(int file, const std::string& text, off_t at) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count =
        ::pwrite(file, text.data() + done, text.size() - done, at + static_cast<off_t>(done));
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

BoundedLog::BoundedLog(const std::string& path)
    : file_(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)) {}

off_t BoundedLog::size() const {
  struct stat info {};
  const bool known = file_ && ::fstat(file_.get(), &info) == 0 && S_ISREG(info.st_mode);
  return known ? info.st_size : 0;
}

void BoundedLog::free_middle() {
  const off_t begin = std::max(freed_, kKept), end = size() - kKept;
  if (end - begin < kPortion) return;
  static_cast<void>(
      ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin));
  freed_ = end;
}

void BoundedLog::cut_middle() {
  const off_t whole = size();
  if (whole <= kLongest) return;
  std::string tail(static_cast<size_t>(kKept), '\0');
  const ssize_t count = ::pread(file_.get(), tail.data(), tail.size(), whole - kKept);
  if (count != static_cast<ssize_t>(tail.size())) return;
  const std::string text =
      "\n[" + std::to_string(whole - 2 * kKept) + " bytes are left out here]\n" + tail;
  if (!write_all(file_.get(), text, kKept)) return;
  static_cast<void>(::ftruncate(file_.get(), kKept + static_cast<off_t>(text.size())));
}

}  // namespace rlreplay

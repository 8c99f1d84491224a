#include "format/foreign/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/foreign/mapping_guard.h"
#include "src/base/descriptor.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kCopiedBelow = size_t{16} << 20;
constexpr int64_t kTick = 20'000'000;  // nanoseconds; files' times are coarser than the clock

[[noreturn]] void refuse(ErrorCode code, const std::string& message, const std::string& path) {
  throw Error(code, message, path);
}

Descriptor open_file(const std::string& path) {
  // What is no regular file is refused once it is open: opening must not wait for a pipe's writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file) return file;
  if (errno == ENOENT || errno == ENOTDIR) {
    refuse(ErrorCode::kIncomplete, "there is no such file", path);
  }
  refuse(ErrorCode::kEnvironment, std::string("cannot open the file: ") + std::strerror(errno),
         path);
}

struct stat state_of(int file, const std::string& path) {
  struct stat info {};
  if (::fstat(file, &info) != 0) {
    refuse(ErrorCode::kEnvironment, std::string("cannot stat the file: ") + std::strerror(errno),
           path);
  }
  return info;
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool same_state(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         same_time(a.st_mtim, b.st_mtim) && same_time(a.st_ctim, b.st_ctim);
}

/// Whether another change might leave the same time.
bool changed_just_now(const struct stat& info) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const int64_t age =
      (now.tv_sec - info.st_ctim.tv_sec) * 1'000'000'000 + (now.tv_nsec - info.st_ctim.tv_nsec);
  return age < kTick;
}

[[noreturn]] void refuse_change(const std::string& path) {
  refuse(ErrorCode::kCorrupt,
         "the file was changed while it was read: try again when nobody writes to it", path);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file = open_file(path);
  opened_ = state_of(file.get(), path);
  if (!S_ISREG(opened_.st_mode)) {
    refuse(ErrorCode::kUnsupported,
           S_ISDIR(opened_.st_mode) ? "this is a directory, a file is expected"
                                    : "this is not a regular file",
           path);
  }
  size_ = static_cast<size_t>(opened_.st_size);
  if (size_ == 0) return;
  // What changes while it is mapped would be seen half old, half new; only its times can tell.
  if (changed_just_now(opened_) && size_ <= kCopiedBelow) {
    copy(file.get());
  } else {
    await_tick(file.get());
    map(file.get());
  }
}

/// Waits until the times of a file tell its next change from the one before.
void MappedFile::await_tick(int file) const {
  if (!changed_just_now(opened_)) return;
  const timespec tick{0, kTick};
  ::nanosleep(&tick, nullptr);
  if (!same_state(opened_, state_of(file, path_))) refuse_change(path_);
}

void MappedFile::copy(int file) {
  copy_ = Buffer<uint8_t>(size_);
  data_ = copy_.data();
  for (size_t at = 0; at < size_;) {
    const ssize_t got = ::pread(file, copy_.data() + at, size_ - at, static_cast<off_t>(at));
    if (got == 0) refuse_change(path_);
    if (got < 0 && errno != EINTR) {
      refuse(ErrorCode::kEnvironment, std::string("cannot read the file: ") + std::strerror(errno),
             path_);
    }
    at += static_cast<size_t>(got > 0 ? got : 0);
  }
}

void MappedFile::map(int file) {
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) {
    refuse(ErrorCode::kEnvironment, std::string("cannot map the file: ") + std::strerror(errno),
           path_);
  }
  data_ = static_cast<const uint8_t*>(data);
  guard_ = guard_mapping(data, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(opened_, other.opened_);
  std::swap(copy_, other.copy_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  if (guard_ < 0) return;
  end_guard(guard_);
  ::munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::release(Bytes range) const {
  if (guard_ < 0) return;
  // Only pages that lie wholly inside: their neighbours are still read.
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(range.data()) + range.size()) / page * page;
  if (begin >= end || range.data() < data_ || range.data() + range.size() > data_ + size_) return;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::check_unchanged() const {
  if (guard_ < 0) return;
  struct stat now {};
  const bool there = ::stat(path_.c_str(), &now) == 0;
  if (has_lost_pages(guard_) || !there || !same_state(opened_, now)) refuse_change(path_);
}

}  // namespace rlreplay::foreign

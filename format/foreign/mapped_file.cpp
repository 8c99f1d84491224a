#include "format/foreign/mapped_file.h"

#include <cerrno>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/environment_error.h"

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
  throw environment_error("cannot open the file", path);
}

struct stat state_of(int file, const std::string& path) {
  struct stat info {};
  if (::fstat(file, &info) != 0) {
    throw environment_error("cannot stat the file", path);
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
  const auto size = static_cast<size_t>(opened_.st_size);
  // What changes while it is mapped would be seen half old, half new; only its times can tell.
  if (changed_just_now(opened_) && size <= kCopiedBelow) {
    copy(file.get(), size);
  } else {
    await_tick(file.get());
    mapping_ = FileMapping(file.get(), size, path);
  }
}

/// Waits until the times of a file tell its next change from the one before.
void MappedFile::await_tick(int file) const {
  if (!changed_just_now(opened_)) return;
  const timespec tick{0, kTick};
  ::nanosleep(&tick, nullptr);
  if (!same_state(opened_, state_of(file, path_))) refuse_change(path_);
}

void MappedFile::copy(int file, size_t size) {
  copy_ = Buffer<uint8_t>(size);
  for (size_t at = 0; at < size;) {
    const ssize_t got = ::pread(file, copy_.data() + at, size - at, static_cast<off_t>(at));
    if (got == 0) refuse_change(path_);
    if (got < 0 && errno != EINTR) {
      throw environment_error("cannot read the file", path_);
    }
    at += static_cast<size_t>(got > 0 ? got : 0);
  }
}

Bytes MappedFile::bytes() const {
  if (copy_.size() > 0) return {copy_.data(), copy_.size()};
  const auto all = mapping_.bytes();
  return {reinterpret_cast<const uint8_t*>(all.data()), all.size()};
}

void MappedFile::release(Bytes range) const { mapping_.release(std::as_bytes(range)); }

void MappedFile::check_unchanged() const {
  if (mapping_.bytes().empty()) return;
  struct stat now {};
  const bool there = ::stat(path_.c_str(), &now) == 0;
  if (mapping_.has_lost_pages() || !there || !same_state(opened_, now)) refuse_change(path_);
}

}  // namespace rlreplay::foreign

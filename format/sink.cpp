#include "format/sink.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <unistd.h>

#include "format/folder.h"
#include "src/base/error.h"

namespace rlreplay::format {

void MemorySink::resize(uint64_t size) {
  if (size > capacity_) {
    const size_t room = std::max<size_t>(static_cast<size_t>(size), capacity_ + capacity_ / 2);
    if (!rlreplay::resize(data_, room)) throw std::bad_alloc();
    capacity_ = room;
  }
  if (size > size_) std::memset(data_.get() + size_, 0, static_cast<size_t>(size) - size_);
  size_ = static_cast<size_t>(size);
}

void MemorySink::write(uint64_t at, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (at + bytes.size() > size_) resize(at + bytes.size());
  std::memcpy(data_.get() + at, bytes.data(), bytes.size());
}

void MemorySink::read(uint64_t at, std::span<std::byte> out) {
  check(at <= size_ && out.size() <= size_ - at, "a read behind the end of a file in memory");
  if (!out.empty()) std::memcpy(out.data(), data_.get() + at, out.size());
}

MemoryBlock MemorySink::release() {
  size_ = capacity_ = 0;
  return std::exchange(data_, nullptr);
}

void FileSink::write(uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = system_.write_at(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw failed_call("write", where_, n == 0 ? ENOSPC : errno);
    at += static_cast<uint64_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void FileSink::read(uint64_t at, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(file_, out.data(), out.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw failed_call("read back", where_, n == 0 ? EIO : errno);
    at += static_cast<uint64_t>(n);
    out = out.subspan(static_cast<size_t>(n));
  }
}

void FileSink::resize(uint64_t size) {
  if (::ftruncate(file_, static_cast<off_t>(size)) != 0) {
    throw failed_call("set the size of", where_, errno);
  }
}

}  // namespace rlreplay::format

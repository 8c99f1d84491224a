#include "src/base/file_mapping.h"

#include <cstdint>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "src/base/environment_error.h"
#include "src/base/mapping_guard.h"

namespace rlreplay {

FileMapping::FileMapping(int file, size_t size, const std::string& path) : FileMapping() {
  if (size == 0) return;
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) {
    throw environment_error("cannot map the file", path);
  }
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
  guard_ = guard_mapping(data, size);
}

FileMapping::FileMapping(FileMapping&& other) noexcept { *this = std::move(other); }

FileMapping& FileMapping::operator=(FileMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  return *this;
}

FileMapping::~FileMapping() {
  if (data_ == nullptr) return;
  if (guard_ >= 0) end_guard(guard_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void FileMapping::release(std::span<const std::byte> range) const {
  const auto all = reinterpret_cast<uintptr_t>(data_);
  const auto at = reinterpret_cast<uintptr_t>(range.data());
  if (range.empty() || at < all || at - all > size_ || range.size() > size_ - (at - all)) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = at / page * page, end = at + range.size();
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

bool FileMapping::has_lost_pages() const { return guard_ >= 0 && rlreplay::has_lost_pages(guard_); }

}  // namespace rlreplay

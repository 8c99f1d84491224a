#include "format/foreign/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rlreplay::foreign {
namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& message, const std::string& path) {
  throw Error(code, message, path);
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ >= 0) return;
    if (errno == ENOENT || errno == ENOTDIR) {
      refuse(ErrorCode::kUsage, "there is no such file", path);
    }
    refuse(ErrorCode::kEnvironment, std::string("cannot open the file: ") + std::strerror(errno),
           path);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    refuse(ErrorCode::kEnvironment, std::string("cannot stat the file: ") + std::strerror(errno),
           path);
  }
  if (!S_ISREG(info.st_mode)) {
    refuse(ErrorCode::kUnsupported,
           S_ISDIR(info.st_mode) ? "this is a directory, a file is expected"
                                 : "this is not a regular file",
           path);
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) {
    refuse(ErrorCode::kEnvironment, std::string("cannot map the file: ") + std::strerror(errno),
           path);
  }
  data_ = static_cast<uint8_t*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedFile::release(Bytes range) const {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(range.data()) + range.size()) / page * page;
  if (begin >= end || range.data() < data_ || range.data() + range.size() > data_ + size_) return;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace rlreplay::foreign

#pragma once

#include <string>

#include "format/foreign/bytes.h"

namespace rlreplay::foreign {

/// A regular file, mapped read-only into memory for as long as this object lives.
class MappedFile {
 public:
  /// Errors: kUsage for a path that does not exist, kUnsupported for what is not a regular file,
  /// kEnvironment where the system refuses.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  Bytes bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Tells the system that the pages wholly inside `range` are not needed for now: they leave
  /// memory and are read again from the file when touched.
  void release(Bytes range) const;

 private:
  std::string path_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace rlreplay::foreign

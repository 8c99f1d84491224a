#pragma once

#include <string>

#include <sys/stat.h>

#include "format/foreign/bytes.h"
#include "src/base/buffer.h"

namespace rlreplay::foreign {

/// A regular file's content for as long as this object lives, read-only.
///
/// It is mapped into memory, and others may write to it meanwhile. Pages that are no longer there
/// read as zeros instead of ending the program by SIGBUS; whoever used the content asks
/// check_unchanged at the end. A file that was written a moment ago is copied where it is small:
/// its times cannot tell whether that writer is done.
class MappedFile {
 public:
  /// Errors: kIncomplete for a path that does not exist, kUnsupported for what is not a regular
  /// file, kEnvironment where the system refuses.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  Bytes bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Tells the system that the pages wholly inside `range` are not needed for now: they leave
  /// memory and are read again from the file when touched.
  void release(Bytes range) const;

  /// Errors: kCorrupt where the file was changed since it was opened.
  void check_unchanged() const;

 private:
  void copy(int file);
  void await_tick(int file) const;
  void map(int file);

  std::string path_;
  struct stat opened_ {};
  Buffer<uint8_t> copy_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  int guard_ = -1;  // of the mapping, against SIGBUS
};

}  // namespace rlreplay::foreign

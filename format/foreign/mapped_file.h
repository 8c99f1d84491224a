#pragma once

#include <string>

#include <sys/stat.h>

#include "format/foreign/bytes.h"
#include "src/base/buffer.h"
#include "src/base/file_mapping.h"

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
  MappedFile(MappedFile&& other) noexcept = default;
  MappedFile& operator=(MappedFile&& other) noexcept = default;

  Bytes bytes() const;
  const std::string& path() const { return path_; }

  /// Lets pages leave memory until they are touched again; see FileMapping::release. Of a file that
  /// was copied nothing is released.
  void release(Bytes range) const;

  /// Errors: kCorrupt where the file was changed since it was opened.
  void check_unchanged() const;

 private:
  void copy(int file, size_t size);
  void await_tick(int file) const;

  std::string path_;
  struct stat opened_ {};
  Buffer<uint8_t> copy_;
  FileMapping mapping_;  // of a file that was not copied
};

}  // namespace rlreplay::foreign

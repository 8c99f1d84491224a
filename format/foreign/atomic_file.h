#pragma once

#include <string>

#include "format/foreign/bytes.h"

namespace rlreplay::foreign {

/// A file that appears under its name complete and on disk, or not at all: it is written beside
/// the name and renamed by `commit`.
class AtomicFile {
 public:
  /// Errors: kEnvironment, here and below.
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Removes what was written unless it was committed.
  ~AtomicFile();

  void write(Bytes bytes);

  /// Writes to disk and takes the name, replacing an older file.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace rlreplay::foreign

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/descriptor.h"
#include "src/base/unfinished.h"

namespace rlreplay {

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

  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text);

  /// Writes to disk and takes the name, replacing an older file.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  Descriptor file_;
  std::optional<Unfinished> unfinished_;
};

}  // namespace rlreplay

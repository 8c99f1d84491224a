#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/descriptor.h"
#include "src/base/unfinished.h"

namespace rlreplay {

/// The file that a name or a link stands for, be it there or not.
/// Errors: kUsage where something is there that is no regular file.
[[nodiscard]] std::string output_file(const std::string& path);

/// Called before a user's file or folder is made. Errors: kUsage where something is there that may
/// not be replaced, an empty folder excepted.
void check_unoccupied(const std::string& path, bool replace);

/// A file that appears under its name complete and on disk, or not at all: it is written beside
/// the name and renamed by `commit`.
class AtomicFile {
 public:
  /// Whether what killed writers of this name left beside it goes: the folder is read for it.
  enum class Left { kRemoved, kStays };

  /// Replaces the file that `output_file` names.
  /// Errors: as of output_file; kEnvironment, here and below.
  explicit AtomicFile(const std::string& path, Left left = Left::kRemoved);
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
  void create();

  std::string path_;
  std::string temporary_;
  Descriptor file_;
  std::optional<Unfinished> unfinished_;
};

}  // namespace rlreplay

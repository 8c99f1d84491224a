#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/system.h"
#include "src/base/buffer.h"
#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace rlreplay::format {

/// A regular file, whose size is the one that it had when it was opened.
struct OpenFile {
  Descriptor file;
  uint64_t size = 0;
  std::string path;  // below the dump

  /// Fills `out` with the bytes from `begin` on; may be called by several threads at once.
  /// Errors: kEnvironment; FormatError kFileSize when the file ends before.
  void read(uint64_t begin, std::span<std::byte> out) const;
  /// Errors: FormatError kFileSize for a file of more bytes.
  void expect_at_most(uint64_t most) const;
};

/// A file under a temporary name, removed unless it is committed. It is locked as long as this
/// lives, under either name: nobody else writes a file of the name meanwhile.
class PendingFile {
 public:
  /// Errors: kUsage where somebody else writes one of this name; kEnvironment.
  PendingFile(Descriptor folder, std::string name, System& system, std::string where);
  ~PendingFile();
  PendingFile(PendingFile&&) noexcept = default;
  PendingFile& operator=(PendingFile&&) = delete;

  int get() const { return file_.get(); }
  const std::string& where() const { return where_; }
  /// Who has the name that the file is to get: nobody, a file that nobody writes any more, or one
  /// whose writer still has its lock.
  enum class Name { kFree, kLeft, kHeld };
  [[nodiscard]] Name find_name() const;
  /// Makes the file durable and gives it its name in one step. Errors: kEnvironment.
  void commit();
  /// Gives the file its name without making it durable, for several files that are made durable
  /// together. Errors: kEnvironment.
  void take_name();

 private:
  Descriptor folder_, file_;
  std::string name_, temporary_;
  System* system_;
  std::string where_;
  bool named_ = false;
};

/// The folder of a dump. What lies below is reached name by name from its descriptor and never
/// through a link, so that no path can lead out of it.
class Folder {
 public:
  /// Errors: kIncomplete when there is no such folder, kEnvironment when it cannot be opened.
  [[nodiscard]] static Folder open(const std::string& path);
  /// Makes the folder where it is missing; the folder above must be there. Its name is durable.
  [[nodiscard]] static Folder create(const std::string& path, System& system);

  const std::string& path() const { return path_; }
  int descriptor() const { return file_.get(); }

  [[nodiscard]] bool exists(std::string_view name) const;
  /// All files below, as paths, sorted; links and other things that are not folders are listed too.
  /// Errors: kUnsupported when there are more than `most`.
  std::vector<std::string> list(size_t most = 4'000'000) const;
  /// The names in one folder of it, sorted; none where there is no such folder.
  std::vector<std::string> list_names(const std::string& name) const;
  /// Makes a folder in it where it is missing, durable. Errors: kEnvironment.
  void make_folder(const std::string& name, System& system) const;

  /// The bytes of a regular file; nothing when it is absent.
  /// Errors: FormatError kFileType, kFileSize (more than `most` bytes), or kUnitType for a link or
  /// something that is no folder on the way.
  [[nodiscard]] std::optional<Buffer<std::byte>> read(std::string_view path, uint64_t most) const;

  /// A regular file to be read; nothing when it is absent.
  /// Errors: FormatError kFileType, or kUnitType as `read`.
  [[nodiscard]] std::optional<OpenFile> open_file(std::string_view path) const;

  /// Writes a file under a temporary name, makes it durable, and gives it its name in one step:
  /// whoever looks sees all of it or none.
  /// Errors: kEnvironment; then the file is as it was before.
  void write_whole(std::string_view path, std::span<const std::byte> bytes, System& system) const;

  /// A file to be written piece by piece, which has its name only once it is committed.
  /// Errors: kEnvironment.
  PendingFile begin_file(std::string_view path, System& system) const;

  void remove(std::string_view path, System& system) const;

 private:
  Folder(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  Descriptor open_parent(std::string_view path, std::string& name, System* maker) const;

  std::string path_;
  Descriptor file_;
};

/// The name under which a file is written before it gets its own.
inline constexpr std::string_view kTemporarySuffix = ".tmp";

/// The error of a system call that failed for `reason`.
[[nodiscard]] Error failed_call(const std::string& what, const std::string& where, int reason);

/// Writes all bytes. Errors: kEnvironment; `where` names the file.
void write_all(int file, std::span<const std::byte> bytes, System& system,
               const std::string& where);

/// Makes what was written to a file or folder durable.
void make_durable(int file, System& system, const std::string& where);

/// Makes durable all that was written to the filesystem of a file or folder. Errors: kEnvironment.
void make_filesystem_durable(int file, System& system, const std::string& where);

}  // namespace rlreplay::format

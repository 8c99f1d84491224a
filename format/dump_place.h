#pragma once

#include <memory>
#include <string>

#include "format/dump_files.h"
#include "src/base/staged_folder.h"

namespace rlreplay::format {

/// Gives a dump the name `path` that was sealed for it by a process which ended too early, and
/// tells so on standard error. Returns whether there was one.
/// Errors: kEnvironment; kUsage where it was to replace something else or another process is there.
[[nodiscard]] bool take_sealed(const std::string& path);

/// Asked before any work: that `path` does not lie within a dump, whose folder is its own alone.
/// Errors: kUsage, naming the dump; kEnvironment where the path cannot be followed.
void check_outside_dumps(const std::string& path);

/// Where a new dump is built, and how it comes to its name: what can be refused is refused before
/// any work, and an older dump is as it was until the new one is sealed.
class DumpPlace {
 public:
  enum class Writer {
    kResumable,  // an unfinished dump is worth keeping: built under its name where nothing is there
    kOneGo,      // it is all or nothing: built beside, where its manifest says nothing yet
    kTemporary   // its maker reads it and throws it away: built under its name
  };

  /// `replace`: whether a dump that is there, or that take_sealed puts there, gives way.
  /// Errors: kUsage where something is there that may not be replaced (no dump, files that are none
  /// of the dump's, a dump without `replace`), the path lies within a dump, or another process
  /// writes there; kEnvironment.
  DumpPlace(const std::string& path, bool replace, Writer writer);
  ~DumpPlace();
  DumpPlace(DumpPlace&&) noexcept;

  /// Where to build it.
  const std::string& path() const { return staged_ ? staged_->path() : path_; }
  /// Whether an unfinished one stays at `path()`.
  [[nodiscard]] bool keeps() const { return writer_ == Writer::kResumable; }
  /// The name that it will have.
  const std::string& name() const { return path_; }

  /// Gives a dump that is sealed its name and removes the one that it replaces; what is none of
  /// that dump's files stays beside, and is named on standard error.
  /// Errors: as of StagedFolder::take_name; then what had the name has it still.
  void settle();

 private:
  std::string path_;
  Writer writer_;
  DumpLock old_lock_;  // of the dump that is replaced: nobody writes to it meanwhile
  std::unique_ptr<StagedFolder> staged_;
  bool settled_ = false;
};

}  // namespace rlreplay::format

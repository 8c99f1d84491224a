#pragma once

#include <optional>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/unfinished.h"

namespace rlreplay {

/// A new folder of its own in the system's folder for temporary files (TMPDIR), PREFIX-XXXXXX. Its
/// path has no symbolic links: git and a build's own pwd say the same.
/// Errors: kEnvironment.
[[nodiscard]] std::string make_temporary_folder(const std::string& prefix);

/// A temporary folder that is removed with all that is in it at the object's end, or when a signal
/// ends the program. Errors: as above.
class TemporaryFolder {
 public:
  /// Whether folders of this prefix go that killed processes left: only where all are of this
  /// class.
  enum class Left { kRemoved, kStay };

  explicit TemporaryFolder(const std::string& prefix, Left left = Left::kStay);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor lock_;  // says that its owner is alive
  std::optional<Unfinished> unfinished_;
};

/// Removes a folder and what is below it, also while another thread still puts files into it.
void remove_tree(const std::string& path) noexcept;

}  // namespace rlreplay

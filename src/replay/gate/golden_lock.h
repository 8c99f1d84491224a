#pragma once

#include <string>
#include <vector>

#include "src/base/descriptor.h"

namespace rlreplay::gate {

/// While it lives, no other process that takes it changes golden files in these files' folders. It
/// is held while files are read and written, never while something runs.
class GoldenLock {
 public:
  /// Waits for others that hold it, half a minute. Errors: kEnvironment where one still does, and
  /// where a folder cannot be opened.
  explicit GoldenLock(const std::vector<std::string>& files);

 private:
  std::vector<Descriptor> folders_;
};

/// What a file holds at a time, by which check_unchanged() knows it again; empty: it is not there.
/// Errors: those of read_file.
[[nodiscard]] std::string state_of(const std::string& path);

/// Sees that a file is as it was. Errors: kIncomplete where it is not; those of state_of().
void check_unchanged(const std::string& path, const std::string& state);

}  // namespace rlreplay::gate

#pragma once

#include <string>

#include <sys/types.h>

#include "src/base/descriptor.h"

namespace rlreplay {

/// A log that others write to, of which the first and the last MiB are kept. Who writes
/// waits for nothing but the file system. What cannot be opened or cut stays as it is.
class BoundedLog {
 public:
  BoundedLog() = default;
  explicit BoundedLog(const std::string& path);

  /// While it is written to: gives the room of what lies between back, where the file system can.
  void free_middle();
  /// When nobody writes any more: cuts what lies between, with a line that says how much it was.
  void cut_middle();

 private:
  off_t size() const;

  Descriptor file_;
  off_t freed_ = 0;  // where what was given back ends
};

}  // namespace rlreplay

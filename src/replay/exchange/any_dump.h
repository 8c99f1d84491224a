#pragma once

#include <memory>
#include <optional>
#include <string>

#include "format/dump_reader.h"
#include "src/base/temporary_folder.h"

namespace rlreplay::replay {

/// Whether the folder is a dump of ours, finished or not.
bool is_native_dump(const std::string& path);

/// Errors: kUsage for a file that only a dump of ours has.
void check_no_part(const std::string& path);

/// A dump of ours, or files of slime, Miles, Relax or JSON lines, which are imported into a folder
/// that goes away with the object.
class AnyDump {
 public:
  /// Errors: as DumpReader::open and import_dump.
  explicit AnyDump(const std::string& path);
  AnyDump(const AnyDump&) = delete;
  AnyDump& operator=(const AnyDump&) = delete;

  const format::DumpReader& reader() const { return *reader_; }
  /// Whether it was imported for this object alone.
  bool is_temporary() const { return temporary_.has_value(); }
  /// Of the dump that is read: the given one, or the temporary one.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<TemporaryFolder> temporary_;  // of a foreign one
  std::unique_ptr<format::DumpReader> reader_;
};

}  // namespace rlreplay::replay

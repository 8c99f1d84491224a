#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/bytes.h"
#include "src/base/atomic_file.h"

namespace rlreplay::foreign {

/// Writes a zip archive of stored members, each aligned to 64 bytes, as torch writes them. The same
/// members give the same bytes. The file appears complete or not at all.
/// Source: PKWARE, APPNOTE.TXT (.ZIP File Format Specification), 4.3.6.
class ZipWriter {
 public:
  /// Errors (also of the others): kEnvironment.
  explicit ZipWriter(const std::string& path) : file_(path) {}

  void add(const std::string& name, Bytes content);
  void commit();

 private:
  struct Entry {
    std::string name;
    uint32_t crc = 0;
    uint64_t size = 0;
    uint64_t header = 0;  // offset of the local header
  };

  void write(const std::string& bytes);

  AtomicFile file_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace rlreplay::foreign

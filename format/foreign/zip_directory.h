#pragma once

#include <string_view>
#include <vector>

#include "format/foreign/bytes.h"

namespace rlreplay::foreign {

/// A member as the central directory of a zip archive describes it.
struct ZipEntry {
  std::string_view name;
  uint64_t size = 0;         // of the content
  uint64_t stored_size = 0;  // of the bytes in the archive
  uint64_t header = 0;       // offset of the local header
  uint32_t crc = 0;
  uint16_t method = 0;
  uint16_t flags = 0;
};

/// The members of an archive. Names are views of its bytes.
/// Source: PKWARE, APPNOTE.TXT (.ZIP File Format Specification), 4.3.12 to 4.3.16 and 4.5.3.
struct ZipDirectory {
  std::vector<ZipEntry> entries;  // in the order of the directory
  uint64_t begin = 0;             // where the directory begins, that is, where members must end
};

/// The methods that a member may be stored by, and the flag of one whose sizes follow its content.
constexpr uint16_t kZipStored = 0;
constexpr uint16_t kZipDeflated = 8;
constexpr uint16_t kZipDescriptorFlag = 1 << 3;

/// Sizes that a 32-bit field marks as being in a zip64 extra field are read from `extra`, in the
/// order of the format; the others stay.
/// Errors: kCorrupt where the field is broken, missing or too short.
void read_zip64_extra(Bytes extra, std::vector<uint64_t*> marked);

/// Reads the end record, its zip64 companions and the central directory. The directory must end
/// where the end records begin and these must end with the file.
/// Errors: kCorrupt, or kUnsupported for several disks, encryption and unknown compression.
[[nodiscard]] ZipDirectory read_zip_directory(Bytes file);

}  // namespace rlreplay::foreign

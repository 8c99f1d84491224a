#include "format/foreign/zip_directory.h"

#include <algorithm>
#include <string>

#include "format/foreign/text.h"
#include "src/base/found_text.h"

namespace rlreplay::foreign {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocatorSignature = 0x07064b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64Size = 56;
constexpr size_t kLocatorSize = 20;
constexpr size_t kEntrySize = 46;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // "look into the zip64 extra field"

[[noreturn]] void corrupt(const std::string& message, uint64_t at) {
  throw Error(ErrorCode::kCorrupt, message, "byte " + std::to_string(at));
}

[[noreturn]] void unsupported_archive(const std::string& message, const std::string& where) {
  throw Error(ErrorCode::kUnsupported, message, where);
}

/// What the end records say of the directory, and where they begin themselves.
struct End {
  uint64_t entries = 0;
  uint64_t size = 0;   // of the directory
  uint64_t begin = 0;  // of the directory
  uint64_t at = 0;     // where the end records begin
};

std::string end_text(const End& end) {
  return std::to_string(end.entries) + " entries in " + std::to_string(end.size) + " bytes from " +
         std::to_string(end.begin) + " on";
}

/// Where the end record is: searched from the end, since a comment of up to 65535 bytes may follow
/// it, which must reach to the end of the file.
uint64_t find_end(Bytes file) {
  if (file.size() >= kEndSize) {
    const uint64_t last = file.size() - kEndSize;
    const uint64_t first = last > 0xFFFF ? last - 0xFFFF : 0;
    for (uint64_t at = last + 1; at-- > first;) {
      if (load_as<uint32_t>(&file[at]) != kEndSignature) continue;
      if (at + kEndSize + load_as<uint16_t>(&file[at + 20]) == file.size()) return at;
    }
  }
  corrupt("the archive has no end record: the file is cut off or not a zip archive", file.size());
}

void refuse_second_end(Bytes file, uint64_t at) {
  for (uint64_t i = at + kEndSize; i + 4 <= file.size(); ++i) {
    if (load_as<uint32_t>(&file[i]) == kEndSignature) {
      corrupt("the archive's comment holds another end record: two readings are possible", i);
    }
  }
}

/// Replaces what the end record says by what the zip64 end record says. Readers take the one or the
/// other, so both must say the same wherever 32 bits hold it.
void read_end64(Bytes file, End& end) {
  const uint64_t locator = end.at - kLocatorSize;
  if (load_as<uint32_t>(&file[locator + 4]) != 0 || load_as<uint32_t>(&file[locator + 16]) > 1) {
    unsupported_archive("the archive is spread over several disks",
                        "byte " + std::to_string(locator));
  }
  const uint64_t at = load_as<uint64_t>(&file[locator + 8]);
  const Bytes record = slice(file, at, kEnd64Size, "the zip64 end record");
  if (load_as<uint32_t>(&record[0]) != kEnd64Signature) {
    corrupt("the zip64 locator does not point to a zip64 end record", at);
  }
  if (const uint64_t size = load_as<uint64_t>(&record[4]); size != locator - at - 12) {
    corrupt(found_text("the zip64 end record does not end at its locator", size, locator - at - 12),
            at);
  }
  if (load_as<uint32_t>(&record[16]) != 0 || load_as<uint32_t>(&record[20]) != 0) {
    unsupported_archive("the archive is spread over several disks", "byte " + std::to_string(at));
  }
  const End wide{load_as<uint64_t>(&record[32]), load_as<uint64_t>(&record[40]),
                 load_as<uint64_t>(&record[48]), at};
  if (const uint64_t here = load_as<uint64_t>(&record[24]); here != wide.entries) {
    corrupt("the zip64 end record counts its entries in two ways, " + std::to_string(here) +
                " and " + std::to_string(wide.entries),
            at);
  }
  const bool agree = (end.entries == 0xFFFF || end.entries == wide.entries) &&
                     (end.size == kIn64 || end.size == wide.size) &&
                     (end.begin == kIn64 || end.begin == wide.begin);
  if (!agree) {
    corrupt("the end record and the zip64 end record disagree: " + end_text(end) + ", and " +
                end_text(wide),
            at);
  }
  end = wide;
}

/// A zip64 locator counts wherever it lies right before the end record, whether or not the record
/// asks for it: there are readers that follow it, and readers that do not.
End read_end(Bytes file) {
  End end;
  end.at = find_end(file);
  refuse_second_end(file, end.at);
  const uint8_t* record = &file[end.at];
  end.entries = load_as<uint16_t>(record + 10);
  end.size = load_as<uint32_t>(record + 12);
  end.begin = load_as<uint32_t>(record + 16);
  const uint16_t disk = load_as<uint16_t>(record + 4);
  const uint16_t directory_disk = load_as<uint16_t>(record + 6);
  const bool saturated = end.entries == 0xFFFF || end.size == kIn64 || end.begin == kIn64;
  const bool located = end.at >= kLocatorSize &&
                       load_as<uint32_t>(&file[end.at - kLocatorSize]) == kLocatorSignature;
  const bool disk_in_64 = located && (disk == 0xFFFF || directory_disk == 0xFFFF);
  if ((disk != 0 || directory_disk != 0) && !disk_in_64) {
    unsupported_archive("the archive is spread over several disks",
                        "byte " + std::to_string(end.at));
  }
  if (const uint16_t here = load_as<uint16_t>(record + 8); here != end.entries) {
    corrupt("the end record counts its entries in two ways, " + std::to_string(here) + " and " +
                std::to_string(end.entries),
            end.at);
  }
  if (located) {
    read_end64(file, end);
  } else if (saturated) {
    corrupt("the end record promises a zip64 end record, there is none", end.at);
  }
  return end;
}

void check_name(std::string_view name, uint64_t at) {
  if (name.empty()) corrupt("a member has no name", at);
  if (name.find('\0') != name.npos) corrupt("a member's name holds a NUL", at);
  if (!is_utf8(name, Surrogates::kRefused)) corrupt("a member's name is not UTF-8", at);
  const std::string quoted = printable(name);
  if (name.find('\\') != name.npos)
    corrupt("member " + quoted + " has a backslash in its name", at);
  if (name.front() == '/') corrupt("member " + quoted + " has an absolute name", at);
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == ".." || part == ".") corrupt("member " + quoted + " leaves its folder", at);
    if (part.empty() && end != name.size()) {
      corrupt("member " + quoted + " has an empty part in its name", at);
    }
    begin = end + 1;
  }
}

void check_support(const ZipEntry& entry) {
  constexpr uint16_t kEncrypted = 1 << 0 | 1 << 6 | 1 << 13;
  const std::string member = "member " + printable(entry.name);
  if (entry.flags & kEncrypted) unsupported_archive("the member is encrypted", member);
  if (entry.flags & 1 << 5) unsupported_archive("the member is a patch of another one", member);
  if (entry.method != kZipStored && entry.method != kZipDeflated) {
    unsupported_archive("compression method " + std::to_string(entry.method) +
                            " is not supported (stored and deflated members are)",
                        member);
  }
}

/// Reads the entry at `at` of the directory and moves `at` behind it.
ZipEntry read_entry(Bytes file, const End& end, uint64_t& at) {
  const Bytes directory = file.first(end.begin + end.size);
  const Bytes fixed = slice(directory, at, kEntrySize, "an entry of the central directory");
  if (load_as<uint32_t>(&fixed[0]) != kEntrySignature) {
    corrupt("the central directory holds fewer entries than the end record promises, " +
                std::to_string(end.entries),
            at);
  }
  const uint64_t name_size = load_as<uint16_t>(&fixed[28]);
  const uint64_t extra_size = load_as<uint16_t>(&fixed[30]);
  const uint64_t comment_size = load_as<uint16_t>(&fixed[32]);
  const Bytes rest = slice(directory, at + kEntrySize, name_size + extra_size + comment_size,
                           "an entry of the central directory");
  ZipEntry entry;
  entry.name = as_text(rest.first(name_size));
  entry.flags = load_as<uint16_t>(&fixed[8]);
  entry.method = load_as<uint16_t>(&fixed[10]);
  entry.crc = load_as<uint32_t>(&fixed[16]);
  entry.stored_size = load_as<uint32_t>(&fixed[20]);
  entry.size = load_as<uint32_t>(&fixed[24]);
  uint64_t disk = load_as<uint16_t>(&fixed[34]);
  entry.header = load_as<uint32_t>(&fixed[42]);
  check_name(entry.name, at);
  std::vector<uint64_t*> marked;
  if (entry.size == kIn64) marked.push_back(&entry.size);
  if (entry.stored_size == kIn64) marked.push_back(&entry.stored_size);
  if (entry.header == kIn64) marked.push_back(&entry.header);
  try {
    read_zip64_extra(rest.subspan(name_size, extra_size), marked);
  } catch (const Error& error) {
    throw error.at("member " + printable(entry.name));
  }
  check_support(entry);
  if (disk != 0 && disk != 0xFFFF) {
    unsupported_archive("the archive is spread over several disks",
                        "member " + printable(entry.name));
  }
  at += kEntrySize + rest.size();
  return entry;
}

}  // namespace

void read_zip64_extra(Bytes extra, std::vector<uint64_t*> marked) {
  bool found = false;
  for (uint64_t at = 0; at < extra.size();) {
    const uint16_t id = get<uint16_t>(extra, at, "an extra field");
    const uint16_t size = get<uint16_t>(extra, at + 2, "an extra field");
    const Bytes field = slice(extra, at + 4, size, "an extra field");
    at += 4 + uint64_t{size};
    if (id != 1) continue;
    if (found) throw Error(ErrorCode::kCorrupt, "there are two zip64 extra fields");
    found = true;
    uint64_t offset = 0;
    for (uint64_t* value : marked) {
      *value = get<uint64_t>(field, offset, "the zip64 extra field");
      offset += 8;
    }
  }
  if (!found && !marked.empty()) {
    throw Error(ErrorCode::kCorrupt, "sizes are said to be in a zip64 extra field, there is none");
  }
}

ZipDirectory read_zip_directory(Bytes file) {
  const End end = read_end(file);
  if (end.size > end.at || end.begin != end.at - end.size) {
    const bool prefixed = end.size <= end.at && end.begin < end.at - end.size;
    corrupt(prefixed ? "the central directory does not end at the end record: its offset is wrong, "
                       "or foreign bytes stand before the first member"
                     : "the central directory does not end at the end record",
            end.at);
  }
  if (end.entries > end.size / kEntrySize) {
    corrupt("the end record promises " + std::to_string(end.entries) +
                " entries, more than the central directory can hold",
            end.at);
  }
  ZipDirectory directory;
  directory.begin = end.begin;
  directory.entries.reserve(end.entries);
  uint64_t at = end.begin;
  for (uint64_t i = 0; i < end.entries; ++i) {
    directory.entries.push_back(read_entry(file, end, at));
  }
  if (at != end.begin + end.size) {
    corrupt("the central directory holds more than the entries that the end record promises: " +
                std::to_string(end.begin + end.size - at) + " bytes behind the last",
            at);
  }
  return directory;
}

}  // namespace rlreplay::foreign

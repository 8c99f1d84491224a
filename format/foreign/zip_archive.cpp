#include "format/foreign/zip_archive.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "format/foreign/text.h"
#include "format/foreign/zlib_codec.h"
#include "src/base/found_text.h"
#include "src/base/number_text.h"
#include "src/base/words.h"

namespace rlreplay::foreign {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kDescriptorSignature = 0x08074b50;
constexpr size_t kLocalSize = 30;
constexpr uint64_t kEntryBytes = 192;  // of its description, name and places in the index
constexpr size_t kProgress = size_t{16} << 20;

[[noreturn]] void corrupt(const ZipEntry& entry, const std::string& message) {
  throw Error(ErrorCode::kCorrupt, message, "member " + printable(entry.name));
}

std::string sizes_text(uint64_t size, uint64_t stored) {
  return counted(size, "byte") + ", " + std::to_string(stored) + " stored";
}

std::string form_text(uint16_t flags, uint16_t method) {
  return "flags " + std::to_string(flags) + ", method " + std::to_string(method);
}

/// Sizes and CRC of the local header, which a data descriptor may leave zero.
void check_local_sizes(const ZipEntry& entry, Bytes local, Bytes extra) {
  const uint32_t crc = load_as<uint32_t>(&local[14]);
  uint64_t stored_size = load_as<uint32_t>(&local[18]);
  uint64_t size = load_as<uint32_t>(&local[22]);
  std::vector<uint64_t*> marked;
  if (size == 0xFFFFFFFF) marked.push_back(&size);
  if (stored_size == 0xFFFFFFFF) marked.push_back(&stored_size);
  read_zip64_extra(extra, marked);
  const bool deferred = entry.flags & kZipDescriptorFlag;
  if (deferred && crc == 0 && stored_size == 0 && size == 0) return;
  if (crc != entry.crc) {
    corrupt(entry, found_text("the CRC of the local header is not the directory's", hex(crc, 8),
                              hex(entry.crc, 8)));
  }
  if (size != entry.size || stored_size != entry.stored_size) {
    corrupt(entry,
            found_text("the size in the local header is not the directory's",
                       sizes_text(size, stored_size), sizes_text(entry.size, entry.stored_size)));
  }
}

/// The stored bytes of the member whose local header stands at entry.header; `limit` is where the
/// next member or the directory begins.
Bytes stored_bytes(Bytes file, const ZipEntry& entry, uint64_t limit) {
  const Bytes room = file.first(limit);
  const Bytes local = slice(room, entry.header, kLocalSize, "the local header");
  if (const auto signature = load_as<uint32_t>(&local[0]); signature != kLocalSignature) {
    corrupt(entry, found_text("there is no local header at byte " + std::to_string(entry.header),
                              hex(signature, 8), hex(kLocalSignature, 8)));
  }
  const uint64_t name_size = load_as<uint16_t>(&local[26]);
  const uint64_t extra_size = load_as<uint16_t>(&local[28]);
  const uint64_t name_at = entry.header + kLocalSize;
  const std::string_view name = as_text(slice(room, name_at, name_size, "the local header"));
  if (name != entry.name) {
    corrupt(entry, found_text("the local header names another member", printable(name),
                              printable(entry.name)));
  }
  const auto flags = load_as<uint16_t>(&local[6]), method = load_as<uint16_t>(&local[8]);
  if (flags != entry.flags || method != entry.method) {
    corrupt(entry, found_text("flags or compression method of the local header are not the "
                              "directory's",
                              form_text(flags, method), form_text(entry.flags, entry.method)));
  }
  check_local_sizes(entry, local, slice(room, name_at + name_size, extra_size, "an extra field"));
  return slice(room, name_at + name_size + extra_size, entry.stored_size, "the member");
}

/// What stands between a member and the next header: nothing, or a data descriptor that agrees.
void check_tail(const ZipEntry& entry, Bytes tail) {
  if (tail.empty()) return;
  const bool deferred = entry.flags & kZipDescriptorFlag;
  Bytes fields = tail;
  if (tail.size() == 16 || tail.size() == 24) {
    if (load_as<uint32_t>(&tail[0]) != kDescriptorSignature) {
      corrupt(entry, "bytes that belong to no member follow");
    }
    fields = tail.subspan(4);
  }
  if (!deferred || (fields.size() != 12 && fields.size() != 20)) {
    corrupt(entry, "bytes that belong to no member follow");
  }
  const bool wide = fields.size() == 20;
  const uint64_t stored = wide ? load_as<uint64_t>(&fields[4]) : load_as<uint32_t>(&fields[4]);
  const uint64_t size = wide ? load_as<uint64_t>(&fields[12]) : load_as<uint32_t>(&fields[8]);
  const uint32_t crc = load_as<uint32_t>(&fields[0]);
  if (crc != entry.crc || stored != entry.stored_size || size != entry.size) {
    corrupt(entry, found_text("the data descriptor disagrees with the directory",
                              "CRC " + hex(crc, 8) + ", " + sizes_text(size, stored),
                              "CRC " + hex(entry.crc, 8) + ", " +
                                  sizes_text(entry.size, entry.stored_size)));
  }
}

}  // namespace

ZipArchive::ZipArchive(Bytes file, Budget* given, const Progress& progress) {
  Budget own(file.size());
  Budget& budget = given != nullptr ? *given : own;
  const ZipDirectory directory = read_zip_directory(file);
  const std::vector<ZipEntry>& entries = directory.entries;
  budget.hold(entries.size() * kEntryBytes);
  // In the order of their bytes a member ends where the next begins, and the last at the directory:
  // no byte is left over that another reader could take for a member.
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return entries[a].header < entries[b].header; });
  for (const ZipEntry& entry : entries) {
    if (entry.header < directory.begin) continue;
    corrupt(entry,
            found_text("the member begins past the end", "byte " + std::to_string(entry.header),
                       "one before " + std::to_string(directory.begin)));
  }
  const uint64_t first = order.empty() ? directory.begin : entries[order[0]].header;
  if (first != 0) {
    throw Error(ErrorCode::kCorrupt,
                found_text("bytes that belong to no member stand before the first one",
                           counted(first, "byte"), "none"),
                "byte 0");
  }
  members_.resize(entries.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const ZipEntry& entry = entries[order[i]];
    const uint64_t limit = i + 1 < order.size() ? entries[order[i + 1]].header : directory.begin;
    if (limit == entry.header) {
      corrupt(entry, "two members begin at the same byte, " + std::to_string(limit));
    }
    try {
      const Bytes stored = stored_bytes(file, entry, limit);
      check_tail(entry, file.first(limit).subspan(stored.data() + stored.size() - file.data()));
      members_[order[i]] = {entry.name, stored};
    } catch (const Error& error) {
      throw error.at("member " + printable(entry.name));
    }
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!index_.emplace(entries[i].name, i).second) corrupt(entries[i], "two members of this name");
    read_content(entries[i], members_[i], budget, progress);
  }
}

/// The memory of an inflated member is counted before it is taken, by the size that the directory
/// says; a stream of another size is refused.
void ZipArchive::read_content(const ZipEntry& entry, Member& member, Budget& budget,
                              const Progress& progress) {
  if (entry.method == kZipStored) {
    if (entry.size != entry.stored_size) {
      corrupt(entry, "a stored member has two sizes: " + sizes_text(entry.size, entry.stored_size));
    }
  } else {
    Buffer<uint8_t> content;
    try {
      budget.hold(entry.size);
      budget.work(entry.size);
      content = Buffer<uint8_t>(entry.size);
      inflate_exactly(member.content, content);
    } catch (const Error& error) {
      throw error.at("member " + printable(entry.name));
    }
    member.content = content;
    inflated_.push_back(std::move(content));
  }
  uint32_t crc = 0;
  for (size_t at = 0; at < member.content.size(); at += kProgress) {
    const size_t size = std::min(kProgress, member.content.size() - at);
    crc = crc32(member.content.subspan(at, size), crc);
    if (progress && entry.method == kZipStored) progress(member.content.subspan(at, size));
  }
  if (crc != entry.crc) {
    corrupt(entry, found_text("the content does not have the CRC of the directory", hex(crc, 8),
                              hex(entry.crc, 8)));
  }
}

const ZipArchive::Member* ZipArchive::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &members_[found->second];
}

}  // namespace rlreplay::foreign

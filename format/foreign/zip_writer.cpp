#include "format/foreign/zip_writer.h"

#include <algorithm>

#include "format/foreign/zlib_codec.h"

namespace rlreplay::foreign {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kLarge = 0xFFFFFFFF;  // what zip64 fields take the place of
constexpr uint16_t kUtf8Names = 0x800;
constexpr uint16_t kNewYear1980 = 0x21;

/// Little-endian fields one behind the other.
class Fields {
 public:
  Fields& u16(uint64_t value) { return put(value, 2); }
  Fields& u32(uint64_t value) { return put(value, 4); }
  Fields& u64(uint64_t value) { return put(value, 8); }
  Fields& text(std::string_view text) {
    out_ += text;
    return *this;
  }
  const std::string& str() const { return out_; }

 private:
  Fields& put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 255);
    return *this;
  }
  std::string out_;
};

/// The 16 bytes from the version to the CRC that local headers and the directory share.
void common(Fields& fields, bool large, uint32_t crc) {
  fields.u16(large ? 45 : 20).u16(kUtf8Names).u16(0).u16(0).u16(kNewYear1980).u32(crc);
}

}  // namespace

void ZipWriter::write(const std::string& bytes) {
  file_.write(as_bytes(bytes));
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, Bytes content) {
  const Entry entry{name, crc32(content), content.size(), at_};
  const bool large = content.size() >= kLarge;
  const uint64_t sizes = large ? 20 : 0;  // the zip64 field
  const uint64_t begin = at_ + 30 + name.size() + sizes + 4;
  const uint64_t padding = (kAlignment - begin % kAlignment) % kAlignment;
  Fields header;
  header.u32(0x04034b50);
  common(header, large, entry.crc);
  header.u32(std::min(entry.size, kLarge)).u32(std::min(entry.size, kLarge));
  header.u16(name.size()).u16(sizes + 4 + padding).text(name);
  if (large) header.u16(1).u16(16).u64(entry.size).u64(entry.size);
  header.text("FB").u16(padding).text(std::string(padding, 'Z'));
  write(header.str());
  file_.write(content);
  at_ += content.size();
  entries_.push_back(entry);
}

void ZipWriter::commit() {
  const uint64_t directory = at_;
  for (const Entry& entry : entries_) {
    Fields extra;
    if (entry.size >= kLarge) extra.u64(entry.size).u64(entry.size);
    if (entry.header >= kLarge) extra.u64(entry.header);
    const uint64_t extra_size = extra.str().size();
    Fields row;
    row.u32(0x02014b50).u16(45);
    common(row, extra_size > 0, entry.crc);
    row.u32(std::min(entry.size, kLarge)).u32(std::min(entry.size, kLarge));
    row.u16(entry.name.size()).u16(extra_size > 0 ? extra_size + 4 : 0);
    row.u16(0).u16(0).u16(0).u32(0).u32(std::min(entry.header, kLarge)).text(entry.name);
    if (extra_size > 0) row.u16(1).u16(extra_size).text(extra.str());
    write(row.str());
  }
  const uint64_t size = at_ - directory;
  const uint64_t count = entries_.size();
  if (count >= 0xFFFF || size >= kLarge || directory >= kLarge) {
    const uint64_t end = at_;
    Fields zip64;
    zip64.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0);
    zip64.u64(count).u64(count).u64(size).u64(directory);
    zip64.u32(0x07064b50).u32(0).u64(end).u32(1);
    write(zip64.str());
  }
  Fields end;
  end.u32(0x06054b50).u16(0).u16(0);
  end.u16(std::min<uint64_t>(count, 0xFFFF)).u16(std::min<uint64_t>(count, 0xFFFF));
  end.u32(std::min(size, kLarge)).u32(std::min(directory, kLarge)).u16(0);
  write(end.str());
  file_.commit();
}

}  // namespace rlreplay::foreign

#include "format/hdf5/storage.h"

#include <algorithm>
#include <bit>

#include "format/hdf5/lookup3.h"
#include "src/base/words.h"

namespace rlreplay::format::h5 {
namespace {

constexpr char kOtherIndex[] = "an index of chunks of another kind";
constexpr size_t kChecksum = 4;

/// Adds a chunk, or says what is wrong with it.
void add_chunk(File& file, uint64_t address, uint64_t size, uint64_t mask, Chunks& out) {
  const std::string name = "chunk " + std::to_string(out.pieces.size());
  if (size == 0) {
    out.fault = name + " is absent: 0 bytes are stored, expected a zstd frame";
  } else if (mask != 0) {
    out.fault =
        name + " was stored without filters of the mask " + std::to_string(mask) + ", expected 0";
  } else if (const auto chunk = file.find(address, size)) {
    out.pieces.push_back(*chunk);
  } else {
    out.fault = name + " of " + counted(size, "byte") + " at " + std::to_string(address) +
                " ends outside of the file";
  }
}

/// The index of the chunks of a dataset of fixed length: a header, a block of entries, and where
/// they are many, pages of them behind the block.
class FixedArray {
 public:
  FixedArray(File& file, uint64_t address, const Layout& layout);
  Chunks chunks();

 private:
  void read_entries(Cursor c, uint64_t count);
  void read_pages(uint64_t address, Bytes there);

  File& file_;
  uint64_t address_;
  size_t entry_size_ = 0;
  uint64_t entries_ = 0, page_entries_ = 0, block_ = 0;
  Chunks out_;
};

FixedArray::FixedArray(File& file, uint64_t address, const Layout& layout)
    : file_(file), address_(address) {
  Cursor c = file.block(address, 4 + 1 + 1 + 1 + 1 + 8 + 8 + kChecksum, "FAHD");
  c.expect(1, 0, kOtherIndex);
  c.expect(1, 1, kOtherIndex);  // chunks with filters
  entry_size_ = static_cast<size_t>(c.byte());
  const uint64_t page_bits = c.byte();
  entries_ = c.number(8);
  block_ = c.address();
  file.expect(entry_size_ > 12 && entry_size_ <= 20 && page_bits < 32, kOtherIndex);
  page_entries_ = uint64_t{1} << page_bits;
  const uint64_t there = block_ == kNowhere ? 0 : entries_;
  if (there != layout.chunks() || there != entries_) {
    out_.fault = "the index lists " + counted(there, "chunk") + ", expected " +
                 std::to_string(layout.chunks());
  }
}

Chunks FixedArray::chunks() {
  if (!out_.fault.empty()) return std::move(out_);
  const bool paged = entries_ > page_entries_;
  const uint64_t pages = paged ? (entries_ - 1) / page_entries_ + 1 : 0;
  const uint64_t bitmap = (pages + 7) / 8;
  // Each entry takes at least 13 bytes of the file: a count beyond its size cannot be true.
  file_.expect_at_most(entries_, file_.look_ahead(0).left() / entry_size_, "an index ends early");
  const uint64_t size = 4 + 1 + 1 + 8 + bitmap + (paged ? 0 : entries_ * entry_size_) + kChecksum;
  Cursor c = file_.block(block_, size, "FADB");
  c.expect(1, 0, kOtherIndex);
  c.expect(1, 1, kOtherIndex);
  c.expect(8, address_, "an index of another dataset");
  out_.pieces.reserve(static_cast<size_t>(entries_));
  if (paged) {
    read_pages(block_ + size, c.bytes(bitmap));
  } else {
    read_entries(c, entries_);
  }
  return std::move(out_);
}

void FixedArray::read_pages(uint64_t address, Bytes there) {
  for (uint64_t first = 0, page = 0; first < entries_ && out_.fault.empty();
       first += page_entries_, ++page) {
    const auto bit = std::byte{0x80} >> (page % 8);
    if ((there[static_cast<size_t>(page / 8)] & bit) == std::byte{0}) {
      out_.fault =
          "chunk " + std::to_string(first) + " is absent, expected all " + std::to_string(entries_);
      return;
    }
    const uint64_t count = std::min(page_entries_, entries_ - first);
    read_entries(file_.block(address, count * entry_size_ + kChecksum, ""), count);
    address += count * entry_size_ + kChecksum;
  }
}

void FixedArray::read_entries(Cursor c, uint64_t count) {
  for (uint64_t i = 0; i < count && out_.fault.empty(); ++i) {
    const uint64_t address = c.address(), size = c.number(entry_size_ - 12), mask = c.number(4);
    add_chunk(file_, address, size, mask, out_);
  }
}

}  // namespace

std::optional<Storage> storage_of(Bytes layout, const Element& element, const File& file) {
  constexpr uint64_t kContiguous = 1, kChunked = 2;
  constexpr uint64_t kFilteredSingle = 0x02, kSingleChunk = 1, kFixedArray = 3;
  Cursor c(layout, file);
  const uint64_t version = c.byte(), kind = c.byte();
  Storage out;
  if (kind == kContiguous && (version == 3 || version == 4)) {
    out.address = c.address();
    out.size = c.number(8);
    return out;
  }
  if (kind != kChunked || version != 4) return std::nullopt;
  const uint64_t flags = c.byte(), rank = c.byte(), width = c.byte();
  if (rank != 2 || width == 0 || width > 8) return std::nullopt;
  out.chunk = c.number(static_cast<size_t>(width));
  if (c.number(static_cast<size_t>(width)) != element.size) return std::nullopt;
  const uint64_t index = c.byte();
  if (index == kSingleChunk && flags == kFilteredSingle) {
    out.kind = Storage::Kind::kSingleChunk;
    out.size = c.number(8);
    out.mask = c.number(4);
  } else if (index == kFixedArray && flags == 0) {
    out.kind = Storage::Kind::kFixedArray;
    c.skip(1);  // the size of its pages, which its header says too
  } else {
    return std::nullopt;
  }
  out.address = c.address();
  return out;
}

void check_fill(Bytes fill, const File& file) {
  constexpr uint64_t kTimes = 0x0f, kUndefined = 0x10, kValue = 0x20;
  Cursor c(fill, file);
  c.expect(1, 3, "a fill value of another version");
  const uint64_t flags = c.byte();
  file.expect_flags(flags, kTimes | kUndefined | kValue, "a fill value with unknown flags");
  file.expect((flags & (kUndefined | kValue)) != (kUndefined | kValue),
              "a fill value that is said to be there and not to be there");
  if ((flags & kValue) != 0) c.skip(c.number(4));
}

std::optional<bool> shuffled_by(Bytes filters, const Element& element, const File& file) {
  constexpr uint64_t kShuffle = 2, kZstd = 32015, kNamed = 256, kOptional = 1;
  Cursor c(filters, file);
  c.expect(1, 2, "filters of another version");
  const uint64_t count = c.byte();
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < count; ++i) {
    ids.push_back(c.number(2));
    const uint64_t name = ids.back() < kNamed ? 0 : c.number(2);
    file.expect_flags(c.number(2), kOptional, "a filter with unknown flags");
    const uint64_t parameters = c.number(2);
    c.skip(name);
    Cursor values(c.bytes(4 * parameters), file);
    const bool shuffles = ids.back() == kShuffle;
    if (shuffles && (parameters != 1 || values.number(4) != element.size)) return std::nullopt;
  }
  if (ids == std::vector<uint64_t>{kZstd}) return false;
  if (ids == std::vector<uint64_t>{kShuffle, kZstd}) return true;
  return std::nullopt;
}

Chunks chunks_of(File& file, const Storage& storage, const Layout& layout) {
  const bool indexed = storage.kind == Storage::Kind::kFixedArray;
  if (indexed && storage.address != kNowhere) {
    return FixedArray(file, storage.address, layout).chunks();
  }
  const uint64_t there = indexed ? 0 : 1;
  Chunks out;
  if (layout.chunks() != there) {
    out.fault = counted(there, "chunk") + (there == 1 ? " is" : " are") + " stored, expected " +
                std::to_string(layout.chunks());
  } else if (!indexed) {
    add_chunk(file, storage.address, storage.size, storage.mask, out);
  }
  return out;
}

}  // namespace rlreplay::format::h5

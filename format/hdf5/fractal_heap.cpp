#include "format/hdf5/fractal_heap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "format/hdf5/b_tree.h"
#include "format/hdf5/lookup3.h"

namespace rlreplay::format::h5 {
namespace {

constexpr char kOtherHeap[] = "a heap of another kind";
constexpr char kOtherCount[] = "a heap's room in another number of sections";

uint64_t log2_of(uint64_t power) { return static_cast<uint64_t>(std::bit_width(power)) - 1; }
size_t bytes_for(uint64_t bits) { return static_cast<size_t>(bits + 7) / 8; }

/// Counts sections that lie there by their length: how many of one, the length, and of each where
/// it begins and its kind; those but the first kind say which rows of a block they are.
/// `stored`, `longest`: of their header, how many there are and how long one is at most.
uint64_t count_sections(const File& file, Cursor& from, uint64_t stored, uint64_t longest,
                        size_t offset_size) {
  constexpr uint64_t kKinds = 4;
  const size_t count_size = bytes_for(static_cast<uint64_t>(std::bit_width(stored))),
               length_size = bytes_for(static_cast<uint64_t>(std::bit_width(longest)));
  uint64_t found = 0;
  while (from.left() > 0) {
    const uint64_t alike = from.number(count_size);
    file.expect(alike > 0, kOtherCount);
    file.expect_at_most(from.number(length_size), longest, "a heap's section is too long");
    for (uint64_t i = 0; i < alike; ++i, ++found) {
      from.skip(offset_size);
      const uint64_t kind = from.byte();
      file.expect_at_most(kind, kKinds - 1, "a heap's section of another kind");
      if (kind != 0) from.skip(offset_size + 3 * 2);
    }
  }
  return found;
}

}  // namespace

FractalHeap::FractalHeap(File& file, uint64_t address) : file_(file), address_(address) {
  read_header();
  read_blocks();
  read_huge();
}

void FractalHeap::read_header() {
  constexpr uint64_t kChecked = 0x02;  // direct blocks have checksums
  Cursor c = file_.block(address_, 146, "FRHP");
  c.expect(1, 0, kOtherHeap);
  id_size_ = static_cast<size_t>(c.number(2));
  c.expect(2, 0, "a heap with filters");
  c.expect(1, kChecked, "a heap with other flags than that of checksums");
  max_managed_ = c.number(4);
  c.skip(8);  // the next id of a huge object
  huge_tree_ = c.address();
  said_.free = c.number(8);
  const uint64_t free_space = c.address();
  managed_ = said_.space = c.number(8);
  said_.allocated = c.number(8);
  c.skip(8);  // where a writer would put the next block
  said_.managed = c.number(8);
  said_.huge_bytes = c.number(8);
  said_.huge = c.number(8);
  c.expect(8, 0, "a heap with tiny objects");
  c.expect(8, 0, "a heap with tiny objects");
  width_ = c.number(2);
  start_ = c.number(8);
  max_direct_ = c.number(8);
  bits_ = c.number(2);
  c.skip(2);
  root_ = c.address();
  rows_ = c.number(2);
  constexpr uint64_t kMost = uint64_t{1} << 32;
  const bool sound = std::has_single_bit(width_) && std::has_single_bit(start_) &&
                     start_ <= max_direct_ && std::has_single_bit(max_direct_) &&
                     max_direct_ <= kMost && bits_ < 64 && log2_of(max_direct_) <= bits_ &&
                     log2_of(width_ * start_) <= bits_ && max_managed_ > 0;
  if (!sound) {
    file_.refuse("a heap of odd sizes: rows of " + std::to_string(width_) + " blocks from " +
                 std::to_string(start_) + " to " + std::to_string(max_direct_) + " bytes, of 2^" +
                 std::to_string(bits_) + " in all, objects of up to " +
                 std::to_string(max_managed_));
  }
  offset_size_ = bytes_for(bits_);
  length_size_ = std::min(bytes_for(log2_of(max_direct_)),
                          bytes_for(static_cast<uint64_t>(std::bit_width(max_managed_))));
  if (free_space != kNowhere) read_free_space(free_space);
}

/// Checks what tells a writer where the heap has room, and takes its sections. No reader needs
/// either, but other structures may not lie there.
void FractalHeap::read_free_space(uint64_t address) {
  constexpr uint64_t kSize = 4 + 1 + 1 + 4 * 8 + 4 * 2 + 8 + 3 * 8 + 4, kClasses = 4;
  Cursor c = file_.block(address, kSize, "FSHD");
  c.expect(1, 0, kOtherHeap);
  c.expect(1, 0, kOtherHeap);  // of a heap
  const uint64_t room = c.number(8), count = c.number(8), stored = c.number(8), made = c.number(8);
  file_.expect_at_most(room, said_.free, "a heap with more room than it counts");
  file_.expect_equal(stored + made, count, kOtherCount);
  c.expect(2, kClasses, kOtherHeap);
  c.skip(2 * 2);  // when it shrinks and grows
  c.expect(2, bits_, kOtherHeap);
  const uint64_t longest = c.number(8), at = c.address(), used = c.number(8), size = c.number(8);
  if (at == kNowhere) return file_.expect_equal(0, stored, kOtherCount);
  file_.expect_at_most(used, size, "a heap's sections take more than their block");
  Cursor sections = file_.block(at, used, "FSSE");
  file_.take(at + used, size - used);
  sections.expect(1, 0, "a heap's sections of another version");
  sections.expect(8, address, "a heap's sections name another header");
  const uint64_t found = count_sections(file_, sections, stored, longest, offset_size_);
  file_.expect_equal(found, stored, kOtherCount);
}

/// Rows of an indirect block for `size` bytes of the heap's space.
uint64_t FractalHeap::max_rows(uint64_t size) const {
  const uint64_t row = width_ * start_;
  return size < row ? 0 : log2_of(size) - log2_of(row) + 1;
}

void FractalHeap::read_blocks() {
  if (root_ == kNowhere) return;
  if (rows_ == 0) {
    found_.space = start_;
    found_.free = start_ - block_header();
    return read_direct(root_, 0, start_);
  }
  std::vector<Indirect> open = {{root_, 0, rows_}};
  while (!open.empty()) {
    const Indirect block = open.back();
    open.pop_back();
    read_indirect(block, open);
  }
  count_room();
  std::sort(blocks_.begin(), blocks_.end(),
            [](const Block& a, const Block& b) { return a.begin < b.begin; });
}

/// Counts the space of all blocks of the root's rows and the room for objects in it, of blocks that
/// were never made too.
void FractalHeap::count_room() {
  std::vector<uint64_t> room = {0};  // for objects, in that many rows
  for (uint64_t row = 0; row < rows_; ++row) {
    const uint64_t size = row_size(row);
    const uint64_t each = size <= max_direct_ ? size - block_header() : room[max_rows(size)];
    room.push_back(room.back() + width_ * each);
    found_.space += width_ * size;
  }
  found_.free = room.back();
}

void FractalHeap::read_indirect(const Indirect& block, std::vector<Indirect>& open) {
  file_.expect(block.rows > 0, "a heap block without rows");
  file_.expect_at_most(block.rows, max_rows(uint64_t{1} << bits_), "a heap block of too many rows");
  const uint64_t children = block.rows * width_;
  Cursor c = file_.block(block.address, 4 + 1 + 8 + offset_size_ + children * 8 + 4, "FHIB");
  c.expect(1, 0, kOtherHeap);
  c.expect(8, address_, "a block of another heap");
  c.expect(offset_size_, block.begin, "a heap block in the wrong place");
  uint64_t begin = block.begin;
  for (uint64_t row = 0; row < block.rows; ++row) {
    const uint64_t size = row_size(row);
    for (uint64_t column = 0; column < width_; ++column, begin += size) {
      const uint64_t child = c.address();
      if (child == kNowhere) continue;
      if (size <= max_direct_) {
        read_direct(child, begin, size);
      } else {
        open.push_back({child, begin, max_rows(size)});
      }
    }
  }
}

void FractalHeap::read_direct(uint64_t address, uint64_t begin, uint64_t size) {
  constexpr size_t kChecksum = 4;
  const Bytes bytes = file_.take(address, size);
  Cursor c(bytes, file_);
  file_.expect(std::memcmp(c.bytes(4).data(), "FHDB", 4) == 0, kOtherHeap);
  c.expect(1, 0, kOtherHeap);
  c.expect(8, address_, "a block of another heap");
  c.expect(offset_size_, begin, "a heap block in the wrong place");
  const size_t at = bytes.size() - c.left();
  const uint64_t checksum = c.number(kChecksum);
  // It is that of the block with zeros in its place.
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  std::fill_n(copy.begin() + static_cast<ptrdiff_t>(at), kChecksum, std::byte{0});
  file_.expect(has_checksum(copy, checksum), "a heap block does not have its checksum");
  blocks_.push_back({begin, bytes});
  found_.allocated += size;
}

Bytes FractalHeap::object(Bytes id) {
  constexpr uint64_t kManaged = 0x00, kHuge = 0x10;  // with version 0
  file_.expect_equal(id.size(), id_size_, "an id of another heap");
  Cursor c(id, file_);
  const uint64_t kind = c.byte();
  if (kind == kManaged) return managed(c);
  file_.expect_equal(kind, kHuge, "an object in a heap's id");
  return huge(c);
}

Bytes FractalHeap::managed(Cursor id) {
  const uint64_t offset = id.number(offset_size_), size = id.number(length_size_);
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                                      [](uint64_t at, const Block& b) { return at < b.begin; });
  constexpr char kOutside[] = "an object outside of its heap";
  file_.expect(after != blocks_.begin() && offset <= managed_ && size <= max_managed_, kOutside);
  const Block& block = *std::prev(after);
  const uint64_t at = offset - block.begin;
  file_.expect(at >= block_header() && at <= block.bytes.size() && size <= block.bytes.size() - at,
               kOutside);
  const Bytes object = block.bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
  file_.note_inner(object);
  ++found_.managed;
  found_.free -= size;
  return object;
}

/// An object that is too large for a block lies in the file by itself; a B-tree says where.
void FractalHeap::read_huge() {
  constexpr size_t kMost = 200'000;
  if (huge_tree_ == kNowhere) return;
  for (const Bytes record : records_of(file_, huge_tree_, RecordType::kHugeObject, 3 * 8, kMost)) {
    const uint64_t id = Cursor(record.last(8), file_).number(8);
    file_.expect(huge_records_.empty() || huge_records_.rbegin()->first < id,
                 "huge objects that are not in order");
    huge_records_[id] = record.first(16);
  }
}

Bytes FractalHeap::huge(Cursor id) {
  file_.expect(id.left() < 8, "a huge object without a record");
  const auto record = huge_records_.find(id.number(id.left()));
  file_.expect(record != huge_records_.end(), "a huge object without a record");
  Cursor place(record->second, file_);
  const uint64_t address = place.address(), size = place.number(8);
  ++found_.huge;
  found_.huge_bytes += size;
  return file_.take(address, size);
}

void FractalHeap::expect_counted() const {
  struct Count {
    const char* what;
    uint64_t Totals::*total;
  };
  static constexpr Count kCounts[] = {
      {"a heap that counts other bytes of space", &Totals::space},
      {"a heap that counts other bytes of blocks", &Totals::allocated},
      {"a heap that counts other bytes of room", &Totals::free},
      {"a heap that counts other objects", &Totals::managed},
      {"a heap that counts other huge objects", &Totals::huge},
      {"a heap that counts other bytes of huge objects", &Totals::huge_bytes}};
  for (const Count& c : kCounts) file_.expect_equal(found_.*c.total, said_.*c.total, c.what);
  file_.expect_equal(huge_records_.size(), found_.huge, "huge objects without a name");
}

}  // namespace rlreplay::format::h5

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "format/hdf5/file.h"

namespace rlreplay::format::h5 {

/// The heap that holds the links of a group, or the attributes of an object, where there are many.
/// Source: HDF5 File Format Specification, version 3, "Fractal Heap" and "Free-space Manager".
class FractalHeap {
 public:
  /// Reads all of its blocks. Errors (also of `object`): FormatError kContainer.
  FractalHeap(File& file, uint64_t address);

  /// The object of an id, which is what a record of a B-tree names.
  Bytes object(Bytes id);
  /// That the heap counts the objects that were asked for, each once, and the room beside them.
  void expect_counted() const;

 private:
  /// Bytes of the heap's space, of them those in blocks, those free for objects; and its objects.
  struct Totals {
    uint64_t space = 0, allocated = 0, free = 0, managed = 0, huge = 0, huge_bytes = 0;
  };
  /// A block with objects, which begins at `begin` of the heap's own space, not of the file.
  struct Block {
    uint64_t begin;
    Bytes bytes;
  };
  struct Indirect {
    uint64_t address, begin, rows;
  };

  void read_header();
  void read_blocks();
  void count_room();
  uint64_t block_header() const { return 4 + 1 + 8 + offset_size_ + 4; }
  void read_indirect(const Indirect& block, std::vector<Indirect>& open);
  void read_direct(uint64_t address, uint64_t begin, uint64_t size);
  uint64_t row_size(uint64_t row) const { return row < 2 ? start_ : start_ << (row - 1); }
  uint64_t max_rows(uint64_t size) const;
  void read_free_space(uint64_t address);
  void read_huge();
  Bytes managed(Cursor id);
  Bytes huge(Cursor id);

  File& file_;
  uint64_t address_;
  uint64_t max_managed_ = 0, managed_ = 0, huge_tree_ = 0, width_ = 0, start_ = 0, max_direct_ = 0,
           bits_ = 0, root_ = 0, rows_ = 0;
  Totals said_, found_;
  size_t id_size_ = 0, offset_size_ = 0, length_size_ = 0;
  std::vector<Block> blocks_;  // sorted
  std::map<uint64_t, Bytes> huge_records_;
};

}  // namespace rlreplay::format::h5

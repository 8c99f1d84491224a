#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "format/hdf5/file.h"

namespace rlreplay::format::h5 {

/// Where a message of information says that links or attributes lie that are not in headers.
struct DensePlace {
  uint64_t heap = kNowhere, names = kNowhere, order = kNowhere;  // the heap and its two indices
};

/// Reads such a message behind its version; `order_size`: of the highest order that was given.
/// Errors: FormatError kContainer, also for an index of no heap.
DensePlace dense_place(Cursor& info, size_t order_size, const File& file);

/// The heap that holds the links of a group, or the attributes of an object, where there are many.
class FractalHeap {
 public:
  /// Reads all of its blocks. Errors (also of `object`): FormatError kContainer.
  FractalHeap(File& file, uint64_t address);

  /// The object of an id, which is what a record of a B-tree names.
  Bytes object(Bytes id);

 private:
  /// Of the heap's own space, which is not the file's.
  struct Block {
    uint64_t begin;
    Bytes bytes;
  };
  struct Indirect {
    uint64_t address, begin, rows;
  };

  void read_header();
  void read_blocks();
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
  size_t id_size_ = 0, offset_size_ = 0, length_size_ = 0;
  std::vector<Block> blocks_;  // sorted
  std::map<uint64_t, Bytes> huge_records_;
};

}  // namespace rlreplay::format::h5

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5_file.h"

/// Which part of which tensor a dataset holds: tensors whose elements lie in several units.
namespace rlreplay::format {

/// What a box holds along one dimension: `length` indices of the tensor's `of`, from `first` on.
struct Interval {
  uint64_t first = 0;
  uint64_t length = 0;
  uint64_t of = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Whether an interval, whose numbers a file may have chosen, lies within its tensor.
[[nodiscard]] inline bool lies_within(const Interval& i) {
  return i.first <= i.of && i.length <= i.of - i.first;
}

/// A block of a logical tensor.
struct Box {
  std::string tensor;  // its name below the group; empty: padding, of no tensor
  std::vector<Interval> dims;

  uint64_t elements() const;
  /// The dimensions of the block, and those of its tensor.
  std::vector<uint64_t> lengths() const;
  std::vector<uint64_t> shape() const;
  /// Three numbers a dimension, as the attribute `boxes` has them.
  std::vector<uint64_t> numbers() const;
  friend bool operator==(const Box&, const Box&) = default;
};

/// The whole of a tensor.
[[nodiscard]] Box whole_box(std::string tensor, std::span<const uint64_t> shape);

/// Whether a dataset says which parts it holds, by `boxes`, or as 0.1 did by `start`.
[[nodiscard]] bool is_cut(const h5::Attributes& attributes);

/// The boxes whose elements a dataset holds one after the other, row-major: the whole of its own
/// tensor where it says nothing else. Nothing where what it says breaks SPEC.md's rules.
[[nodiscard]] std::optional<std::vector<Box>> boxes_of(std::string_view name,
                                                       std::span<const uint64_t> shape,
                                                       const h5::Attributes& attributes);

/// What errors say of a dataset that breaks the rules of boxes.
inline constexpr char kUnsoundBoxes[] =
    "its boxes do not lie within their tensors, or are not of its elements";

/// Writes the attributes `boxes` and `tensors`, from which boxes_of reads the boxes again.
/// Shapes: all boxes have as many dimensions.
void set_boxes(h5::Attributes& attributes, std::span<const Box> boxes);

/// Whether `name` is an attribute that says where elements lie, and nothing else.
[[nodiscard]] bool is_placing(std::string_view name);

}  // namespace rlreplay::format

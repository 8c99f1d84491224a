#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/boxes.h"
#include "src/base/dtype.h"

namespace rlreplay::format {

/// A tensor that is put together of blocks in any order. What several blocks hold is compared by
/// the one meaning of equal.
class LogicalTensor {
 public:
  /// `out` becomes its elements, row-major, and outlives it. Errors: kInternal for another size.
  LogicalTensor(DType dtype, std::vector<uint64_t> shape, std::span<std::byte> out);

  /// An element that two blocks hold differently.
  struct Differing {
    uint64_t element = 0;  // of the tensor
    size_t first = 0;      // who gave it before
    std::string before;    // the values, as text
    std::string now;
  };

  /// Takes the elements of a block of type `dtype`, the tensor's, or f32 for one of f64; `source`
  /// is who gives them. Returns the first element that was given differently; the tensor then holds
  /// what was given first.
  [[nodiscard]] std::optional<Differing> put(const Box& box, DType dtype,
                                             std::span<const std::byte> elements, size_t source);

  /// The first element that no block has given.
  [[nodiscard]] std::optional<uint64_t> gap() const;

  /// How many elements blocks have given.
  [[nodiscard]] uint64_t given() const;

  /// Bytes that are held beside the elements, for so many of them.
  static uint64_t bookkeeping(uint64_t elements) { return elements / 8 + sizeof(uint64_t); }

 private:
  struct Given {
    Box box;
    size_t source = 0;
  };
  void copy(uint64_t to, uint64_t count, const std::byte* from, DType dtype);
  [[nodiscard]] bool none_given(uint64_t begin, uint64_t end) const;
  void mark(uint64_t begin, uint64_t end);
  [[nodiscard]] bool is_given(uint64_t at) const { return (given_[at / 64] >> (at % 64) & 1) != 0; }
  [[nodiscard]] size_t giver_of(uint64_t element) const;

  DType dtype_;
  std::vector<uint64_t> shape_;
  std::span<std::byte> out_;
  uint64_t elements_ = 0;
  std::vector<uint64_t> given_;  // a bit an element
  std::vector<Given> boxes_;
};

/// "[3, 5]": where an element stands.
[[nodiscard]] std::string place_text(uint64_t element, std::span<const uint64_t> shape);

/// The type that holds both's elements exactly: their own where they are the same, f64 for f32 and
/// f64, else nothing.
[[nodiscard]] std::optional<DType> common_type(DType a, DType b);

}  // namespace rlreplay::format

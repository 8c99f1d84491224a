#pragma once

#include <optional>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// The numbers of a list, tensor or numpy array under one interface, row-major. Frameworks write
/// the same column as any of them. Valid as long as the tree.
class Numbers {
 public:
  /// Nothing where the value is no list of integers or floats only, and no tensor or array of
  /// integers of int64 range, bools or real floats. An empty list is one of integers.
  static std::optional<Numbers> of(const Tree& tree, Value value);

  size_t size() const { return size_; }
  bool is_integer() const { return integer_; }

  /// The element i < size(); `integer` where is_integer(), `real` always.
  int64_t integer(size_t i) const;
  double real(size_t i) const;

 private:
  Numbers() = default;
  static std::optional<Numbers> of_tensor(const Tree& tree, const Tensor& tensor);
  static std::optional<Numbers> of_array(const Array& array);
  bool fits() const;
  const uint8_t* at(size_t i) const { return data().data() + i * item_; }
  Bytes data() const { return copy_.empty() ? view_ : Bytes(copy_); }

  size_t size_ = 0;
  bool integer_ = true;
  const Sequence* list_ = nullptr;
  TorchDType dtype_ = TorchDType::kInt64;
  size_t item_ = 0;
  Bytes view_;
  std::vector<uint8_t> copy_;
};

}  // namespace rlreplay::foreign

#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// One number: of an integer, a float or, as in Python, a bool.
[[nodiscard]] std::optional<double> number_of(Value value);

/// The numbers of a list, tensor or numpy array under one interface, row-major. Frameworks write
/// the same column as any of them. Valid as long as the tree.
class Numbers {
 public:
  /// Nothing where the value is no list of integers and floats, and no tensor or array of integers
  /// of int64 range, bools or real floats. In a list a bool is 0 or 1, as in Python, and integers
  /// among floats are floats: nothing where binary64 does not hold one.
  /// An empty list holds integers.
  [[nodiscard]] static std::optional<Numbers> of(const Tree& tree, Value value);

  size_t size() const { return size_; }
  [[nodiscard]] bool is_integer() const { return integer_; }

  /// The element i < size(); `integer` where is_integer(), `real` always.
  int64_t integer(size_t i) const;
  double real(size_t i) const;

  /// Calls `see` with the elements in order, a span at a time, until it returns false: a list's as
  /// they are packed, others as int64_t or double.
  template <class See>
  void for_each_piece(See see) const;

  /// The place of the first element that `test` is true of.
  template <class Test>
  [[nodiscard]] std::optional<size_t> find(Test test) const;

  /// Whether binary32 holds every element exactly.
  [[nodiscard]] bool is_narrow() const;

 private:
  Numbers() = default;
  [[nodiscard]] static std::optional<Numbers> of_values(std::span<const Value> values);
  template <class T>
  void copy(T value);
  [[nodiscard]] static std::optional<Numbers> of_tensor(const Tree& tree, const Tensor& tensor);
  [[nodiscard]] static std::optional<Numbers> of_array(const Array& array);
  [[nodiscard]] bool fits() const;
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

template <class See>
void Numbers::for_each_piece(See see) const {
  if (list_ != nullptr) {
    list_->see_packed(see);
    return;
  }
  const auto convert = [&]<class T>(T /*type*/, auto get) {
    std::array<T, 512> piece;
    for (size_t begin = 0; begin < size_; begin += piece.size()) {
      const size_t count = std::min(piece.size(), size_ - begin);
      for (size_t i = 0; i < count; ++i) piece[i] = get(begin + i);
      if (!see(std::span<const T>(piece.data(), count))) return;
    }
  };
  if (integer_) return convert(int64_t(), [&](size_t i) { return integer(i); });
  convert(double(), [&](size_t i) { return real(i); });
}

template <class Test>
std::optional<size_t> Numbers::find(Test test) const {
  size_t at = 0;
  bool found = false;
  for_each_piece([&](auto piece) {
    const auto it = std::find_if(piece.begin(), piece.end(), test);
    at += static_cast<size_t>(it - piece.begin());
    found = it != piece.end();
    return !found;
  });
  return found ? std::optional(at) : std::nullopt;
}

}  // namespace rlreplay::foreign

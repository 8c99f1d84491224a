#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "format/foreign/value.h"
#include "src/base/budget.h"
#include "src/base/error.h"
#include "src/base/memory_block.h"

namespace rlreplay::foreign {

/// A growing list of values. Integers only, or floats only, are kept in the narrowest type that
/// holds all of them exactly: rollouts are mostly lists of token ids and log-probabilities, and 16
/// bytes a value would be four times what they need.
class Sequence {
 public:
  enum class Packing : uint8_t { kEmpty, kU8, kI32, kI64, kF32, kF64, kValues };

  Sequence() = default;
  Sequence(Sequence&& other) noexcept { swap(other); }
  Sequence& operator=(Sequence&& other) noexcept {
    swap(other);
    return *this;
  }

  size_t size() const { return size_; }
  size_t bytes() const { return capacity_; }
  Packing packing() const { return packing_; }
  [[nodiscard]] bool is_integers() const {
    return packing_ >= Packing::kU8 && packing_ <= Packing::kI64;
  }
  [[nodiscard]] bool is_floats() const {
    return packing_ == Packing::kF32 || packing_ == Packing::kF64;
  }

  Value operator[](size_t i) const;

  /// The element i < size() of a list of integers or floats.
  int64_t integer(size_t i) const;
  double real(size_t i) const;

  /// The elements where packing() is kValues: none of a list of integers or floats.
  std::span<const Value> values() const {
    if (packing_ != Packing::kValues) return {};
    return {items<Value>(), size_};
  }

  /// Calls `see` with all elements as one span of the type that they are packed in. Only where the
  /// list is one of integers or floats, or empty.
  template <class See>
  decltype(auto) see_packed(See see) const;

  /// Appends and repacks where needed. `packed` false keeps 16 bytes a value (for dicts, tuples).
  /// `budget`: where memory is drawn on one. Errors: kLimit.
  void append(std::span<const Value> values, bool packed, Budget* budget = nullptr);

  /// Replaces the value i of an unpacked sequence.
  void set(size_t i, Value value) { items<Value>()[i] = value; }

  /// Gives back memory that no value takes, the first time; a list that grows again keeps its room.
  void fit(Budget* budget = nullptr);

  /// Frees the values. What they were packed in stays known.
  void clear();

  /// Drops the values from `size` on.
  void truncate(size_t size) { size_ = size < size_ ? size : size_; }

 private:
  void reserve(size_t size, size_t item, Budget* budget);
  void repack(Packing packing, Budget* budget);
  void store(std::span<const Value> values);

  /// The memory as what it is packed in.
  template <class T>
  T* items() {
    return static_cast<T*>(static_cast<void*>(data_.get()));
  }
  template <class T>
  const T* items() const {
    return static_cast<const T*>(static_cast<const void*>(data_.get()));
  }

  void swap(Sequence& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(packing_, other.packing_);
    std::swap(fitted_, other.fitted_);
  }

  MemoryBlock data_;
  size_t size_ = 0;
  size_t capacity_ = 0;  // in bytes
  Packing packing_ = Packing::kEmpty;
  bool fitted_ = false;
};

template <class See>
decltype(auto) Sequence::see_packed(See see) const {
  const auto span = [&]<class T>(T /*type*/) { return std::span<const T>(items<T>(), size_); };
  switch (packing_) {
    case Packing::kI32:
      return see(span(int32_t()));
    case Packing::kI64:
      return see(span(int64_t()));
    case Packing::kF32:
      return see(span(float()));
    case Packing::kF64:
      return see(span(double()));
    default:
      check(packing_ != Packing::kValues, "a list of numbers");
      return see(span(uint8_t()));
  }
}

}  // namespace rlreplay::foreign

#include "format/foreign/sequence.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "format/foreign/half.h"

namespace rlreplay::foreign {
namespace {

using Packing = Sequence::Packing;

size_t item_size(Packing packing) {
  switch (packing) {
    case Packing::kEmpty:
      return 0;
    case Packing::kU8:
      return 1;
    case Packing::kI32:
    case Packing::kF32:
      return 4;
    case Packing::kI64:
    case Packing::kF64:
      return 8;
    case Packing::kValues:
      return sizeof(Value);
  }
  return sizeof(Value);
}

Packing packing_of(Value value) {
  if (value.kind == Kind::kInt) {
    const int64_t v = value.integer;
    if (v >= 0 && v <= UINT8_MAX) return Packing::kU8;
    return v >= INT32_MIN && v <= INT32_MAX ? Packing::kI32 : Packing::kI64;
  }
  if (value.kind == Kind::kFloat) return fits_float(value.real) ? Packing::kF32 : Packing::kF64;
  return Packing::kValues;
}

Packing join(Packing a, Packing b) {
  if (a == Packing::kEmpty || b == Packing::kEmpty) return std::max(a, b);
  const bool integers = a <= Packing::kI64 && b <= Packing::kI64;
  const bool floats = a >= Packing::kF32 && b >= Packing::kF32;
  return integers || floats ? std::max(a, b) : Packing::kValues;
}

/// The narrowest type for all of some values.
Packing packing_of(std::span<const Value> values) {
  const Kind kind = values[0].kind;
  size_t same = 0;
  if (kind == Kind::kInt) {
    int64_t low = values[0].integer, high = low;
    for (; same < values.size() && values[same].kind == kind; ++same) {
      low = std::min(low, values[same].integer);
      high = std::max(high, values[same].integer);
    }
    if (same < values.size()) return Packing::kValues;
    return join(packing_of(Value::of_int(low)), packing_of(Value::of_int(high)));
  }
  bool narrow = true;
  for (; same < values.size() && values[same].kind == kind && kind == Kind::kFloat; ++same) {
    narrow = narrow && fits_float(values[same].real);
  }
  if (same < values.size()) return Packing::kValues;
  return narrow ? Packing::kF32 : Packing::kF64;
}

}  // namespace

Value Sequence::operator[](size_t i) const {
  if (packing_ == Packing::kValues) return items<Value>()[i];
  return is_integers() ? Value::of_int(integer(i)) : Value::of_float(real(i));
}

int64_t Sequence::integer(size_t i) const {
  if (packing_ == Packing::kU8) return items<uint8_t>()[i];
  if (packing_ == Packing::kI32) return items<int32_t>()[i];
  check(packing_ == Packing::kI64, "a list of integers");
  return items<int64_t>()[i];
}

double Sequence::real(size_t i) const {
  if (packing_ == Packing::kF32) {
    return static_cast<double>(items<float>()[i]);
  }
  check(packing_ == Packing::kF64, "a list of floats");
  return items<double>()[i];
}

void Sequence::append(std::span<const Value> values, bool packed, Budget* budget) {
  if (values.empty()) return;
  Packing wanted = packed ? packing_ : Packing::kValues;
  if (wanted != Packing::kValues) wanted = join(wanted, packing_of(values));
  if (wanted != packing_) repack(wanted, budget);
  reserve(size_ + values.size(), item_size(packing_), budget);
  store(values);
  size_ += values.size();
}

void Sequence::clear() {
  data_.reset();
  size_ = capacity_ = 0;
}

void Sequence::fit(Budget* budget) {
  const size_t bytes = size_ * item_size(packing_);
  if (fitted_ || bytes == 0 || bytes == capacity_) return;
  fitted_ = true;
  if (!resize(data_, bytes)) return;  // it fits as it is
  if (budget != nullptr) budget->give_back(capacity_ - bytes);
  capacity_ = bytes;
}

void Sequence::reserve(size_t size, size_t item, Budget* budget) {
  if (size > SIZE_MAX / 2 / item) throw std::bad_alloc();
  const size_t bytes = size * item;
  if (bytes <= capacity_) return;
  // A quarter more at a time: the lists of a large dump would waste a third when doubled.
  const size_t grown = capacity_ == 0 ? bytes : std::max(bytes, capacity_ + capacity_ / 4);
  if (budget != nullptr) budget->hold(grown - capacity_);
  if (!resize(data_, grown)) throw std::bad_alloc();
  capacity_ = grown;
}

void Sequence::repack(Packing packing, Budget* budget) {
  Sequence old;
  swap(old);
  packing_ = packing;
  fitted_ = old.fitted_;
  if (old.size_ == 0) return;
  reserve(old.size_, item_size(packing), budget);
  for (size_t i = 0; i < old.size_; ++i) {
    const Value value = old[i];
    store({&value, 1});
    ++size_;
  }
  if (budget != nullptr) budget->give_back(old.capacity_);
}

void Sequence::store(std::span<const Value> values) {
  const auto write = [&](auto* out, auto get) {
    out += size_;
    for (size_t i = 0; i < values.size(); ++i) {
      out[i] = static_cast<std::remove_reference_t<decltype(*out)>>(get(values[i]));
    }
  };
  const auto integer = [](const Value& v) { return v.integer; };
  const auto real = [](const Value& v) { return v.real; };
  switch (packing_) {
    case Packing::kEmpty:
      return;
    case Packing::kU8:
      return write(items<uint8_t>(), integer);
    case Packing::kI32:
      return write(items<int32_t>(), integer);
    case Packing::kI64:
      return write(items<int64_t>(), integer);
    case Packing::kF32:
      return write(items<float>(), real);
    case Packing::kF64:
      return write(items<double>(), real);
    case Packing::kValues:
      std::memcpy(items<Value>() + size_, values.data(), values.size_bytes());
      return;
  }
}

}  // namespace rlreplay::foreign

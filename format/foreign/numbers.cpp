#include "format/foreign/numbers.h"

#include <algorithm>
#include <bit>
#include <string>

#include "format/foreign/half.h"
#include "format/foreign/tensor_content.h"

namespace rlreplay::foreign {
namespace {

enum class Family { kInteger, kReal, kOther };

Family family(TorchDType dtype) {
  switch (dtype) {
    case TorchDType::kInt64:
    case TorchDType::kInt32:
    case TorchDType::kInt16:
    case TorchDType::kInt8:
    case TorchDType::kUint64:
    case TorchDType::kUint32:
    case TorchDType::kUint16:
    case TorchDType::kUint8:
    case TorchDType::kBool:
      return Family::kInteger;
    case TorchDType::kFloat64:
    case TorchDType::kFloat32:
    case TorchDType::kFloat16:
    case TorchDType::kBFloat16:
      return Family::kReal;
    default:
      return Family::kOther;
  }
}

/// torch's type for a little-endian numpy type.
std::optional<TorchDType> torch_type(const ArrayDType& dtype) {
  if (dtype.order == '>') return std::nullopt;
  const std::string bits = std::to_string(dtype.size * 8);
  if (dtype.kind == 'b') return TorchDType::kBool;
  if (dtype.kind == 'i') return dtype_named("int" + bits);
  if (dtype.kind == 'u') return dtype_named("uint" + bits);
  if (dtype.kind == 'f') return dtype_named("float" + bits);
  return std::nullopt;
}

/// Whether binary64 holds an integer.
bool is_exact(int64_t whole) {
  const auto bits = static_cast<uint64_t>(whole), size = whole < 0 ? 0 - bits : bits;
  return size == 0 || std::bit_width(size) - std::countr_zero(size) <= 53;
}

}  // namespace

std::optional<double> number_of(Value value) {
  if (value.kind == Kind::kFloat) return value.real;
  if (value.kind == Kind::kInt) return static_cast<double>(value.integer);
  if (value.kind == Kind::kBool) return value.boolean ? 1 : 0;
  return std::nullopt;
}

std::optional<Numbers> Numbers::of(const Tree& tree, Value value) {
  if (value.kind == Kind::kTensor) return of_tensor(tree, tree.tensor(value));
  if (value.kind == Kind::kArray) return of_array(tree.array(value));
  if (value.kind != Kind::kList) return std::nullopt;
  const Sequence& list = tree.sequence(value);
  if (list.packing() == Sequence::Packing::kValues) return of_values(list.values());
  Numbers made;
  made.list_ = &list;
  made.size_ = list.size();
  made.integer_ = !list.is_floats();
  return made;
}

std::optional<Numbers> Numbers::of_values(std::span<const Value> values) {
  Numbers made;
  made.integer_ = std::ranges::none_of(values, [](Value v) { return v.kind == Kind::kFloat; });
  made.dtype_ = made.integer_ ? TorchDType::kInt64 : TorchDType::kFloat64;
  made.item_ = sizeof(int64_t);
  made.size_ = values.size();
  made.copy_.reserve(made.size_ * made.item_);
  for (const Value v : values) {
    const std::optional<double> real = number_of(v);
    if (!real) return std::nullopt;
    const int64_t whole = v.kind == Kind::kBool ? int64_t{v.boolean} : v.integer;
    if (made.integer_) {
      made.copy(whole);
    } else if (v.kind == Kind::kInt && !is_exact(whole)) {
      return std::nullopt;
    } else {
      made.copy(*real);
    }
  }
  return made;
}

template <class T>
void Numbers::copy(T value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  copy_.insert(copy_.end(), bytes, bytes + sizeof value);
}

std::optional<Numbers> Numbers::of_tensor(const Tree& tree, const Tensor& tensor) {
  if (family(tensor.dtype) == Family::kOther) return std::nullopt;
  Numbers made;
  made.size_ = static_cast<size_t>(tensor.count);
  made.dtype_ = tensor.dtype;
  made.integer_ = family(tensor.dtype) == Family::kInteger;
  made.item_ = static_cast<size_t>(item_size(tensor.dtype));
  made.view_ = contiguous_content(tree, tensor, made.copy_);
  return made.fits() ? std::optional<Numbers>(std::move(made)) : std::nullopt;
}

std::optional<Numbers> Numbers::of_array(const Array& array) {
  const std::optional<TorchDType> dtype = torch_type(array.dtype);
  if (!dtype) return std::nullopt;
  Numbers made;
  made.dtype_ = *dtype;
  made.integer_ = family(*dtype) == Family::kInteger;
  made.item_ = static_cast<size_t>(array.dtype.size);
  made.size_ = array.data.size() / made.item_;
  made.view_ = array.data;
  return made.fits() ? std::optional<Numbers>(std::move(made)) : std::nullopt;
}

bool Numbers::fits() const {
  for (size_t i = 0; dtype_ == TorchDType::kUint64 && i < size_; ++i) {
    if (load_as<uint64_t>(at(i)) > INT64_MAX) return false;
  }
  return true;
}

bool Numbers::is_narrow() const {
  if (list_ != nullptr && list_->packing() == Sequence::Packing::kF32) return true;
  return !find([](auto value) { return !fits_float(static_cast<double>(value)); });
}

int64_t Numbers::integer(size_t i) const {
  if (list_ != nullptr) return list_->integer(i);
  const uint8_t* p = at(i);
  switch (dtype_) {
    case TorchDType::kInt64:
      return load_as<int64_t>(p);
    case TorchDType::kInt32:
      return load_as<int32_t>(p);
    case TorchDType::kInt16:
      return load_as<int16_t>(p);
    case TorchDType::kInt8:
      return load_as<int8_t>(p);
    case TorchDType::kUint32:
      return load_as<uint32_t>(p);
    case TorchDType::kUint16:
      return load_as<uint16_t>(p);
    case TorchDType::kUint8:
      return *p;
    case TorchDType::kBool:
      return *p != 0 ? 1 : 0;
    case TorchDType::kUint64:
      return load_as<int64_t>(p);
    default:
      throw Error(ErrorCode::kInternal, "a column of floats is read as integers");
  }
}

double Numbers::real(size_t i) const {
  if (integer_) return static_cast<double>(integer(i));
  if (list_ != nullptr) return list_->real(i);
  const uint8_t* p = at(i);
  switch (dtype_) {
    case TorchDType::kFloat64:
      return load_as<double>(p);
    case TorchDType::kFloat32:
      return static_cast<double>(load_as<float>(p));
    case TorchDType::kFloat16:
      return static_cast<double>(float16_to_float(load_as<uint16_t>(p)));
    default:
      return static_cast<double>(bfloat16_to_float(load_as<uint16_t>(p)));
  }
}

}  // namespace rlreplay::foreign

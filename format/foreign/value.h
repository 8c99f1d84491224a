#pragma once

#include <cstdint>

namespace rlreplay::foreign {

/// What a value of a pickle is. Comments say what `index` points to in the Tree.
enum class Kind : uint8_t {
  kNone,
  kBool,
  kInt,  // in int64
  kFloat,
  kBigInt,       // text: decimal digits
  kText,         // text: UTF-8, surrogates allowed
  kBytes,        // text
  kByteArray,    // text
  kList,         // sequence
  kTuple,        // sequence
  kSet,          // sequence
  kFrozenSet,    // sequence
  kDict,         // sequence: key, value, key, value ...
  kOrderedDict,  // sequence like kDict
  kObject,       // sequence: class, then attribute, value ...
  kEnum,         // sequence: class, value
  kComplex,      // sequence: real, imaginary
  kRange,        // sequence: start, stop, step
  kSlice,        // sequence: start, stop, step
  kTorchSize,    // sequence: integers
  kTorchDevice,  // text
  kGlobal,       // global
  kStorage,      // storage
  kTensor,       // tensor
  kArray,        // array: numpy.ndarray
  kScalar,       // array: a numpy scalar
  kArrayDType,   // array dtype
};

/// A value of a pickle: small ones in here, others by their place in the Tree.
struct Value {
  Kind kind = Kind::kNone;
  union {
    uint64_t bits = 0;
    bool boolean;
    int64_t integer;
    double real;
    uint32_t index;
  };

  static Value of_bool(bool v) {
    Value value{Kind::kBool, {}};
    value.boolean = v;
    return value;
  }
  static Value of_int(int64_t v) {
    Value value{Kind::kInt, {}};
    value.integer = v;
    return value;
  }
  static Value of_float(double v) {
    Value value{Kind::kFloat, {}};
    value.real = v;
    return value;
  }
  static Value node(Kind kind, uint32_t index) {
    Value value{kind, {}};
    value.index = index;
    return value;
  }
};

/// Whether a value has members by name.
[[nodiscard]] inline bool is_record(Value value) {
  return value.kind == Kind::kDict || value.kind == Kind::kObject ||
         value.kind == Kind::kOrderedDict;
}

/// Whether `index` of such a value points to a sequence.
[[nodiscard]] inline bool is_sequence(Kind kind) {
  return kind >= Kind::kList && kind <= Kind::kTorchSize;
}

/// Whether Python's dict would accept it as a key.
[[nodiscard]] inline bool is_hashable(Kind kind) {
  switch (kind) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kBigInt:
    case Kind::kText:
    case Kind::kBytes:
    case Kind::kTuple:
    case Kind::kFrozenSet:
    case Kind::kEnum:
    case Kind::kGlobal:
      return true;
    default:
      return false;
  }
}

}  // namespace rlreplay::foreign

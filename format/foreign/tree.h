#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/bytes.h"
#include "format/foreign/sequence.h"
#include "format/foreign/torch_dtype.h"
#include "format/foreign/value.h"
#include "src/base/budget.h"

namespace rlreplay::foreign {

/// What a name in a pickle stands for; the reader knows these and no others.
enum class Role : uint8_t {
  kOrderedDict,
  kBytes,
  kByteArray,
  kComplex,
  kSet,
  kFrozenSet,
  kSlice,
  kRange,
  kGetattr,
  kEncode,  // _codecs.encode
  kTensorV2,
  kTensorV3,
  kParameter,
  kTypedStorage,  // dtype
  kUntypedStorage,
  kTorchDType,  // dtype
  kTorchSize,
  kTorchDevice,
  kArrayReconstruct,
  kArrayFromBuffer,
  kArrayScalar,
  kArrayDType,
  kArrayClass,
  kDataClass,  // objects of it are attributes and nothing else
  kEnumClass,
};

/// A name that a pickle imports, and what it stands for.
struct Global {
  std::string module;
  std::string name;
  Role role;
  TorchDType dtype = TorchDType::kFloat32;  // of kTypedStorage and kTorchDType
};

/// Elements that tensors are windows on, as the archive holds them.
struct Storage {
  std::string_view key;       // the name of its record in the archive
  std::string_view location;  // the device that it was saved from
  int64_t count = 0;          // elements, or bytes where untyped
  TorchDType dtype = TorchDType::kUint8;
  bool untyped = false;
  Bytes data;
};

/// A tensor: a strided window on a storage. Bounds are checked when it is made.
struct Tensor {
  uint32_t storage = 0;
  TorchDType dtype = TorchDType::kFloat32;
  bool requires_grad = false;
  bool parameter = false;
  int64_t offset = 0;  // elements
  int64_t count = 0;   // elements of the logical content
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;  // elements
};

/// An element type of numpy: kind ('i', 'f', 'U', ...), byte order ('<', '>' or '|'), size.
struct ArrayDType {
  char kind = 0;
  char order = '|';
  int64_t size = 0;  // bytes
};

/// A numpy array in C order, or a numpy scalar.
struct Array {
  ArrayDType dtype;
  std::vector<int64_t> shape;
  Bytes data;
};

/// The content of a pickle as plain data. Values name its parts by their place, so the same list
/// used twice is one part. Texts point into the pickle's bytes, which must outlive the tree.
class Tree {
 public:
  /// What is added draws on `budget`, where there is one. Errors of all that adds: kLimit.
  explicit Tree(Budget* budget = nullptr) : budget_(budget) {}

  /// Ends the drawing: what follows is the reader's own.
  void release_budget() { budget_ = nullptr; }
  void hold(uint64_t bytes) {
    if (budget_ != nullptr) budget_->hold(bytes);
  }
  void give_back(uint64_t bytes) {
    if (budget_ != nullptr) budget_->give_back(bytes);
  }
  void work(uint64_t steps) {
    if (budget_ != nullptr) budget_->work(steps);
  }

  Sequence& sequence(Value value) { return sequences_[value.index]; }
  const Sequence& sequence(Value value) const { return sequences_[value.index]; }
  std::string_view text(Value value) const { return texts_[value.index]; }
  const Global& global(Value value) const { return globals_[value.index]; }
  const Storage& storage(Value value) const { return storages_[value.index]; }
  const Storage& storage(const Tensor& tensor) const { return storages_[tensor.storage]; }
  const std::vector<Storage>& storages() const { return storages_; }
  const Tensor& tensor(Value value) const { return tensors_[value.index]; }
  Array& array(Value value) { return arrays_[value.index]; }
  const Array& array(Value value) const { return arrays_[value.index]; }
  ArrayDType& array_dtype(Value value) { return array_dtypes_[value.index]; }
  const ArrayDType& array_dtype(Value value) const { return array_dtypes_[value.index]; }
  size_t sequences() const { return sequences_.size(); }

  /// The value of a text key of a dict, an ordered dict or an object's attributes; null if absent.
  /// The last one where a key occurs twice.
  [[nodiscard]] const Value* find(Value dict, std::string_view key) const;
  /// The integer of a text key, looked for as by `find`; nothing for other values.
  [[nodiscard]] std::optional<int64_t> integer(Value dict, std::string_view key) const;

  Value add_sequence(Kind kind);
  Value add_sequence(Kind kind, std::span<const Value> values);
  /// Sequence::append and fit, on the budget.
  void append(Value to, std::span<const Value> values, bool packed) {
    sequence(to).append(values, packed, budget_);
  }
  void fit(Value list) { sequence(list).fit(budget_); }
  /// Short ones are copied: they are what a reader asks for, they lie between long lists, and each
  /// would bring the lists around it back into memory.
  Value add_text(Kind kind, std::string_view text);
  Value own_text(Kind kind, std::string text);
  Value add_global(Global global);
  Value add_storage(const Storage& storage);
  Value add_tensor(Tensor tensor);
  Value add_array(Kind kind, Array array);
  Value add_array_dtype(const ArrayDType& dtype);

  /// How often each sequence is an item of another one below `root`, which has no cycles.
  std::vector<uint32_t> uses(Value root) const;

  /// Keeps bytes for as long as the tree lives.
  Bytes own_bytes(std::string bytes);

 private:
  template <class Container, class Item>
  Value add(Container& container, Item&& item, Kind kind);
  std::string_view copy(std::string_view text);

  Budget* budget_;
  std::vector<Sequence> sequences_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> owned_;
  std::vector<std::unique_ptr<char[]>> shelves_;  // short texts, one behind the other
  size_t shelf_used_ = 0;                         // of the last one
  std::deque<Global> globals_;
  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
  std::vector<Array> arrays_;
  std::vector<ArrayDType> array_dtypes_;
};

}  // namespace rlreplay::foreign

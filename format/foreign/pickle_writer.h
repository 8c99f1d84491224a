#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// A part of a tree, as a key: values that share their content have the same one.
[[nodiscard]] uint64_t part_key(Value value);

/// Parts that a pickle leaves out: each is replaced by a persistent id that names where its content
/// lies ("tokens/12"). Lists of numbers, texts and tensors can be replaced.
using Replacements = std::unordered_map<uint64_t, std::string>;

/// Takes the next piece of a pickle.
using PickleSink = std::function<void(Bytes)>;

/// Writes a tree as a pickle of protocol 2, with the names and calls that Python, torch and numpy
/// give the same content. What the tree shares is shared.
class PickleWriter {
 public:
  /// `replacements` must outlive the writer.
  PickleWriter(const Tree& tree, PickleSink sink, const Replacements& replacements);

  /// Errors: kUnsupported for a text or bytes above 4 GiB.
  void write(Value root);

  /// The tensors whose content is a record of its own, in the order of their keys "0", "1", ...
  const std::vector<Value>& records() const { return records_; }

 private:
  void count(Value value);
  void put(Value value);
  void put_body(Value value);
  void put_sequence(Value value);
  void put_replaced(Value value, const std::string& place);
  void put_number(Value value);
  void put_big_integer(std::string_view digits);
  void put_bytes(std::string_view bytes);
  void put_list(const Sequence& list);
  void put_items(const Sequence& sequence, size_t begin);
  void put_tuple(const Sequence& tuple);
  void put_object(const Sequence& object);
  void put_tensor(Value value, const std::string* place);
  void put_storage(const Tensor& tensor, const std::string& key);
  void put_array(Value value);
  void put_array_dtype(const ArrayDType& dtype);
  void put_class(Value cls);
  void put_global(std::string_view module, std::string_view name);
  void put_text(std::string_view text);
  void put_known_text(std::string_view text);
  void put_integer(int64_t value);
  void put_dims(const std::vector<int64_t>& dims);
  void put_ordered_dict();
  void put_unsigned(uint64_t value, size_t bytes);
  void op(uint8_t opcode);
  void raw(std::string_view bytes);
  /// Gives the object on top of the stack a place in the memo.
  uint32_t remember();
  void recall(uint32_t place);
  void flush();

  const Tree& tree_;
  PickleSink sink_;
  const Replacements& replacements_;
  std::vector<Value> records_;
  std::string out_;
  std::unordered_map<uint64_t, uint32_t> uses_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  std::unordered_map<std::string, uint32_t> names_;  // of globals and of the writer's own texts
  uint32_t next_ = 0;
};

}  // namespace rlreplay::foreign

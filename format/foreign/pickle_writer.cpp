#include "format/foreign/pickle_writer.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "format/foreign/pickle_opcodes.h"
#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kOpcodeBytes = size_t{1} << 16;
constexpr size_t kBatch = 1000;  // values that one opcode appends

/// Whether Python compares it by identity or would keep two copies where one was.
bool is_part(Kind kind) {
  return is_sequence(kind) || kind == Kind::kText || kind == Kind::kBytes ||
         kind == Kind::kByteArray || kind == Kind::kTensor || kind == Kind::kArray;
}

/// Latin-1 characters as UTF-8.
std::string latin1_to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 2);
  for (const char c : bytes) append_utf8(text, static_cast<uint8_t>(c));
  return text;
}

}  // namespace

uint64_t part_key(Value value) {
  // Kinds that share one list of the tree share one number.
  const Kind group = is_sequence(value.kind) ? Kind::kList : value.kind;
  return static_cast<uint64_t>(group) << 32 | value.index;
}

PickleWriter::PickleWriter(const Tree& tree, PickleSink sink, const Replacements& replacements)
    : tree_(tree), sink_(std::move(sink)), replacements_(replacements) {}

void PickleWriter::write(Value root) {
  count(root);
  op(kProto);
  out_ += '\2';
  put(root);
  op(kStop);
  flush();
}

/// Counts how often every part is used, so that only shared ones get a place in the memo.
void PickleWriter::count(Value value) {
  if (!is_part(value.kind)) return;
  const uint64_t key = part_key(value);
  if (++uses_[key] > 1 || replacements_.contains(key) || !is_sequence(value.kind)) return;
  const Sequence& sequence = tree_.sequence(value);
  if (sequence.packing() != Sequence::Packing::kValues) return;
  for (const Value child : sequence.values()) count(child);
}

void PickleWriter::put(Value value) {
  if (!is_part(value.kind)) return put_body(value);
  const uint64_t key = part_key(value);
  if (const auto known = memo_.find(key); known != memo_.end()) return recall(known->second);
  if (const auto place = replacements_.find(key); place != replacements_.end()) {
    put_replaced(value, place->second);
  } else {
    put_body(value);
  }
  if (uses_[key] > 1 && !memo_.contains(key)) memo_.emplace(key, remember());
}

void PickleWriter::put_replaced(Value value, const std::string& place) {
  if (value.kind == Kind::kTensor) return put_tensor(value, &place);
  const bool text = value.kind == Kind::kText;
  const bool floats = !text && tree_.sequence(value).is_floats();
  put_known_text(text ? "text" : floats ? "floats" : "integers");
  put_text(place);
  op(kTuple2);
  op(kBinPersId);
}

/// Builtins have the names of Python 2, as pickles of protocol 2 have them.
void PickleWriter::put_body(Value value) {
  switch (value.kind) {
    case Kind::kNone:
      return op(kNone);
    case Kind::kBool:
      return op(value.boolean ? kNewTrue : kNewFalse);
    case Kind::kInt:
    case Kind::kFloat:
      return put_number(value);
    case Kind::kBigInt:
      return put_big_integer(tree_.text(value));
    case Kind::kText:
      return put_text(tree_.text(value));
    case Kind::kBytes:
      return put_bytes(tree_.text(value));
    case Kind::kByteArray:
      put_global("__builtin__", "bytearray");
      put_bytes(tree_.text(value));
      op(kTuple1);
      return op(kReduce);
    case Kind::kTorchDevice: {
      const std::string_view device = tree_.text(value);
      const size_t colon = std::min(device.find(':'), device.size());
      put_global("torch", "device");
      put_text(device.substr(0, colon));
      if (colon < device.size()) {
        put_integer(std::stoll(std::string(device.substr(colon + 1))));
      }
      op(colon < device.size() ? kTuple2 : kTuple1);
      return op(kReduce);
    }
    case Kind::kGlobal:
      return put_class(value);
    case Kind::kTensor:
      return put_tensor(value, nullptr);
    case Kind::kArray:
    case Kind::kScalar:
      return put_array(value);
    case Kind::kArrayDType:
      return put_array_dtype(tree_.array_dtype(value));
    case Kind::kStorage:
      throw Error(ErrorCode::kInternal, "check_tree refuses bare storages");
    default:
      return put_sequence(value);
  }
}

/// What protocol 2 has no opcode for is a call, whose arguments a tuple holds.
void PickleWriter::put_sequence(Value value) {
  const Sequence& sequence = tree_.sequence(value);
  const auto call = [&](std::string_view module, std::string_view name, auto arguments) {
    put_global(module, name);
    arguments();
    op(kReduce);
  };
  switch (value.kind) {
    case Kind::kList:
      return put_list(sequence);
    case Kind::kTuple:
      return put_tuple(sequence);
    case Kind::kSet:
    case Kind::kFrozenSet:
      return call("__builtin__", value.kind == Kind::kSet ? "set" : "frozenset", [&] {
        put_list(sequence);
        op(kTuple1);
      });
    case Kind::kDict:
      op(kEmptyDict);
      return put_items(sequence, 0);
    case Kind::kOrderedDict:
      put_ordered_dict();
      return put_items(sequence, 0);
    case Kind::kObject:
      return put_object(sequence);
    case Kind::kEnum:
      put_class(sequence[0]);
      put(sequence[1]);
      op(kTuple1);
      return op(kReduce);
    case Kind::kComplex:
      return call("__builtin__", "complex", [&] { put_tuple(sequence); });
    case Kind::kRange:
      return call("__builtin__", "xrange", [&] { put_tuple(sequence); });
    case Kind::kSlice:
      return call("__builtin__", "slice", [&] { put_tuple(sequence); });
    default:
      return call("torch", "Size", [&] {
        put_tuple(sequence);
        op(kTuple1);
      });
  }
}

void PickleWriter::put_list(const Sequence& list) {
  op(kEmptyList);
  for (size_t i = 0; i < list.size(); i += kBatch) {
    op(kMark);
    for (size_t j = i; j < std::min(i + kBatch, list.size()); ++j) put(list[j]);
    op(kAppends);
  }
}

void PickleWriter::put_items(const Sequence& sequence, size_t begin) {
  for (size_t i = begin; i < sequence.size(); i += 2 * kBatch) {
    op(kMark);
    for (size_t j = i; j < std::min(i + 2 * kBatch, sequence.size()); ++j) put(sequence[j]);
    op(kSetItems);
  }
}

void PickleWriter::put_tuple(const Sequence& tuple) {
  if (tuple.size() == 0) return op(kEmptyTuple);
  if (tuple.size() > 3) op(kMark);
  for (size_t i = 0; i < tuple.size(); ++i) put(tuple[i]);
  op(tuple.size() > 3    ? kTuple
     : tuple.size() == 1 ? kTuple1
     : tuple.size() == 2 ? kTuple2
                         : kTuple3);
}

void PickleWriter::put_object(const Sequence& object) {
  put_class(object[0]);
  op(kEmptyTuple);
  op(kNewObj);
  op(kEmptyDict);
  put_items(object, 1);
  op(kBuild);
}

void PickleWriter::put_class(Value cls) {
  const Global& global = tree_.global(cls);
  if (global.role == Role::kTorchDType) return put_global("torch", global.name);
  // Protocol 2 has no name for a nested class: it is an attribute of the outer one.
  const size_t dot = global.name.find('.');
  if (dot == global.name.npos) return put_global(global.module, global.name);
  put_global("__builtin__", "getattr");
  put_global(global.module, global.name.substr(0, dot));
  put_known_text(global.name.substr(dot + 1));
  op(kTuple2);
  op(kReduce);
}

void PickleWriter::put_number(Value value) {
  if (value.kind == Kind::kInt) return put_integer(value.integer);
  op(kBinFloat);
  const auto bits = std::bit_cast<uint64_t>(value.real);
  for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift & 255);
}

void PickleWriter::put_integer(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= 0 && value < 256) {
    op(kBinInt1);
    put_unsigned(bits, 1);
  } else if (value >= 0 && value < 65536) {
    op(kBinInt2);
    put_unsigned(bits, 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    op(kBinInt);
    put_unsigned(bits, 4);
  } else {
    op(kLong1);
    out_ += '\x08';
    put_unsigned(bits, 8);
  }
}

void PickleWriter::put_big_integer(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  std::string bytes;  // of the magnitude, least significant first
  for (const char digit : digits.substr(negative ? 1 : 0)) {
    uint32_t carry = static_cast<uint32_t>(digit - '0');
    for (char& byte : bytes) {
      carry += static_cast<uint32_t>(static_cast<uint8_t>(byte)) * 10;
      byte = static_cast<char>(carry & 255);
      carry >>= 8;
    }
    if (carry != 0) bytes += static_cast<char>(carry);
  }
  bytes += '\0';
  bool borrow = negative;  // two's complement: invert, add one
  for (char& byte : bytes) {
    if (!negative) break;
    const auto flipped = static_cast<uint8_t>(~static_cast<uint8_t>(byte));
    byte = static_cast<char>(flipped + (borrow ? 1 : 0));
    borrow = borrow && flipped == 255;
  }
  op(kLong4);
  put_unsigned(bytes.size(), 4);
  raw(bytes);
}

void PickleWriter::put_bytes(std::string_view bytes) {
  if (bytes.empty()) {
    put_global("__builtin__", "bytes");
    op(kEmptyTuple);
  } else {
    put_global("_codecs", "encode");
    put_text(latin1_to_utf8(bytes));
    put_known_text("latin1");
    op(kTuple2);
  }
  op(kReduce);
}

void PickleWriter::put_global(std::string_view module, std::string_view name) {
  const std::string full = std::string(module) + "\n" + std::string(name) + "\n";
  const std::string key = "global " + full;
  if (const auto known = names_.find(key); known != names_.end()) return recall(known->second);
  op(kGlobal);
  raw(full);
  names_.emplace(key, remember());
}

void PickleWriter::put_text(std::string_view text) {
  if (text.size() > UINT32_MAX) {
    throw Error(ErrorCode::kUnsupported, "a text of more than 4 GiB fits no pickle of protocol 2");
  }
  op(kBinUnicode);
  put_unsigned(text.size(), 4);
  raw(text);
}

void PickleWriter::put_known_text(std::string_view text) {
  const std::string key = "text " + std::string(text);
  if (const auto known = names_.find(key); known != names_.end()) return recall(known->second);
  put_text(text);
  names_.emplace(key, remember());
}

void PickleWriter::put_unsigned(uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 255);
}

void PickleWriter::op(uint8_t opcode) {
  if (out_.size() >= kOpcodeBytes) flush();
  out_ += static_cast<char>(opcode);
}

void PickleWriter::raw(std::string_view bytes) {
  out_ += bytes;
  if (out_.size() >= kOpcodeBytes) flush();
}

uint32_t PickleWriter::remember() {
  op(kLongBinPut);
  put_unsigned(next_, 4);
  return next_++;
}

void PickleWriter::recall(uint32_t place) {
  op(kLongBinGet);
  put_unsigned(place, 4);
}

void PickleWriter::flush() {
  sink_(as_bytes(out_));
  out_.clear();
}

}  // namespace rlreplay::foreign

#include "format/foreign/canonical_json.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "format/foreign/tensor_content.h"
#include "format/foreign/text.h"
#include "src/base/number_text.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;

/// Writes one tree. check_tree bounds the depth of the recursion. What JSON has no type for is an
/// object of one key that begins with `$`, so a dict with such a key, or with keys that are no
/// texts, is one of them too: `$dict`, a list of pairs. Floats are bits in hex; text leaves in
/// pieces of 64 KiB.
class Writer {
 public:
  Writer(const Tree& tree, const TextSink& sink) : tree_(tree), sink_(sink) {}

  void write(Value value) {
    if (out_.size() >= kFlushBytes) flush();
    switch (value.kind) {
      case Kind::kNone:
        return put("null");
      case Kind::kBool:
        return put(value.boolean ? "true" : "false");
      case Kind::kInt:
        return put(std::to_string(value.integer));
      case Kind::kFloat:
        return wrap("$f", [&] { float_bits(value.real); });
      case Kind::kBigInt:
        return wrap("$int", [&] { string(tree_.text(value)); });
      case Kind::kText:
        return text(tree_.text(value));
      case Kind::kBytes:
        return wrap("$bytes", [&] { hex(as_bytes(tree_.text(value))); });
      case Kind::kByteArray:
        return wrap("$bytearray", [&] { hex(as_bytes(tree_.text(value))); });
      case Kind::kTorchDevice:
        return wrap("$torch.device", [&] { string(tree_.text(value)); });
      case Kind::kGlobal:
        return global(tree_.global(value));
      case Kind::kTensor:
        return wrap("$tensor", [&] { tensor(tree_.tensor(value)); });
      case Kind::kArray:
      case Kind::kScalar:
        return array(value);
      case Kind::kArrayDType:
        return wrap("$np.dtype", [&] { array_dtype(tree_.array_dtype(value)); });
      case Kind::kStorage:
        throw Error(ErrorCode::kInternal, "check_tree refuses bare storages");
      default:
        return sequence(value, tree_.sequence(value));
    }
  }

  void flush() {
    sink_(out_);
    out_.clear();
  }

 private:
  void put(std::string_view piece) { out_ += piece; }
  void string(std::string_view piece) { append_json_string(out_, piece); }

  template <class Body>
  void wrap(std::string_view key, Body body) {
    put("{\"");
    put(key);
    put("\":");
    body();
    put("}");
  }

  /// Items 0..count-1 in brackets.
  template <class Item>
  void list(size_t count, Item item) {
    put("[");
    for (size_t i = 0; i < count; ++i) {
      if (i != 0) put(",");
      item(i);
    }
    put("]");
  }

  void numbers(const std::vector<int64_t>& values) {
    list(values.size(), [&](size_t i) { put(std::to_string(values[i])); });
  }

  void float_bits(double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    char digits[18];
    digits[0] = digits[17] = '"';
    for (size_t i = 0; i < 16; ++i) digits[1 + i] = kHexDigits[bits >> (60 - 4 * i) & 15];
    put({digits, sizeof(digits)});
  }

  void hex_digits(Bytes bytes) {
    for (const uint8_t byte : bytes) {
      out_ += kHexDigits[byte >> 4];
      out_ += kHexDigits[byte & 15];
      if (out_.size() >= kFlushBytes) flush();
    }
  }

  void hex(Bytes bytes) {
    put("\"");
    hex_digits(bytes);
    put("\"");
  }

  void text(std::string_view value) {
    if (!has_surrogates(value)) return string(value);
    wrap("$wtf8", [&] { hex(as_bytes(value)); });
  }

  void global(const Global& global) {
    if (global.role == Role::kTorchDType) {
      return wrap("$torch.dtype", [&] { string(global.name); });
    }
    wrap("$global", [&] { string(global.module + "." + global.name); });
  }

  void items(const Sequence& sequence, size_t begin = 0) {
    list(sequence.size() - begin, [&](size_t i) { write(sequence[begin + i]); });
  }

  void pairs(const Sequence& sequence) {
    list(sequence.size() / 2,
         [&](size_t i) { list(2, [&](size_t j) { write(sequence[2 * i + j]); }); });
  }

  void sequence(Value value, const Sequence& sequence) {
    switch (value.kind) {
      case Kind::kList:
        return list_of(sequence);
      case Kind::kTuple:
        return wrap("$tuple", [&] { items(sequence); });
      case Kind::kSet:
        return wrap("$set", [&] { sorted(sequence); });
      case Kind::kFrozenSet:
        return wrap("$frozenset", [&] { sorted(sequence); });
      case Kind::kDict:
        return dict(sequence, 0);
      case Kind::kOrderedDict:
        put("{\"$object\":\"collections.OrderedDict\",\"items\":");
        pairs(sequence);
        return put("}");
      case Kind::kObject:
        put("{\"$object\":");
        string(full_name(sequence[0]));
        put(",\"state\":");
        dict(sequence, 1);
        return put("}");
      case Kind::kEnum:
        put("{\"$enum\":");
        string(full_name(sequence[0]));
        put(",\"value\":");
        write(sequence[1]);
        return put("}");
      case Kind::kComplex:
        return wrap("$complex", [&] { list(2, [&](size_t i) { float_bits(sequence[i].real); }); });
      case Kind::kRange:
        return wrap("$range", [&] { items(sequence); });
      case Kind::kSlice:
        return wrap("$slice", [&] { items(sequence); });
      default:
        return wrap("$torch.Size", [&] { items(sequence); });
    }
  }

  std::string full_name(Value cls) const {
    return tree_.global(cls).module + "." + tree_.global(cls).name;
  }

  void list_of(const Sequence& sequence) {
    if (!sequence.is_floats()) return items(sequence);
    wrap("$fl", [&] {
      list(sequence.size(), [&](size_t i) {
        float_bits(sequence.real(i));
        if (out_.size() >= kFlushBytes) flush();
      });
    });
  }

  /// Writes the items of a set, sorted by their own canonical texts: a set has no order.
  void sorted(const Sequence& sequence) {
    std::vector<std::string> texts(sequence.size());
    for (size_t i = 0; i < sequence.size(); ++i) {
      write_canonical_json(tree_, sequence[i], [&](std::string_view piece) { texts[i] += piece; });
    }
    std::sort(texts.begin(), texts.end());
    list(texts.size(), [&](size_t i) { put(texts[i]); });
  }

  bool plain_key(Value key) const {
    if (key.kind != Kind::kText) return false;
    const std::string_view name = tree_.text(key);
    return !name.starts_with('$') && !has_surrogates(name);
  }

  /// A dict whose items begin at `begin`: an object where all keys are plain texts.
  void dict(const Sequence& sequence, size_t begin) {
    bool plain = true;
    for (size_t i = begin; i < sequence.size(); i += 2) plain = plain && plain_key(sequence[i]);
    if (!plain) return wrap("$dict", [&] { pairs(sequence); });
    put("{");
    for (size_t i = begin; i < sequence.size(); i += 2) {
      if (i != begin) put(",");
      string(tree_.text(sequence[i]));
      put(":");
      write(sequence[i + 1]);
    }
    put("}");
  }

  void tensor(const Tensor& tensor) {
    const Storage& storage = tree_.storage(tensor);
    put("{\"dtype\":");
    string(name(tensor.dtype));
    put(",\"shape\":");
    numbers(tensor.shape);
    put(",\"requires_grad\":");
    put(tensor.requires_grad ? "true" : "false");
    if (tensor.parameter) put(",\"parameter\":true");
    put(",\"record\":");
    text(storage.key);
    put(",\"location\":");
    text(storage.location);
    put(",\"offset\":" + std::to_string(tensor.offset) + ",\"stride\":");
    numbers(tensor.stride);
    put(",\"hex\":\"");
    for_each_run(tree_, tensor, [&](Bytes run) { hex_digits(run); });
    put("\"}");
  }

  void array_dtype(const ArrayDType& dtype) {
    const int64_t size = dtype.kind == 'U' ? dtype.size / 4 : dtype.size;
    string(std::string{dtype.order, dtype.kind} + std::to_string(size));
  }

  void array(Value value) {
    const Array& array = tree_.array(value);
    put(value.kind == Kind::kArray ? "{\"$ndarray\":{\"dtype\":" : "{\"$npscalar\":{\"dtype\":");
    array_dtype(array.dtype);
    if (value.kind == Kind::kArray) {
      put(",\"shape\":");
      numbers(array.shape);
    }
    put(",\"hex\":");
    hex(array.data);
    put("}}");
  }

  const Tree& tree_;
  const TextSink& sink_;
  std::string out_;
};

void append_unit(std::string& out, uint32_t unit) { out += "\\u" + hex(unit, 4); }

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kFrom = "\"\\\b\f\n\r\t";
  constexpr std::string_view kTo = "\"\\bfnrt";
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const uint32_t point = next_code_point(text, at);
    const size_t named = point < 0x80 ? kFrom.find(static_cast<char>(point)) : kFrom.npos;
    if (named != kFrom.npos) {
      out += '\\';
      out += kTo[named];
    } else if (point >= 0x20 && point < 0x7F) {
      out += static_cast<char>(point);
    } else if (point < 0x10000) {
      append_unit(out, point);
    } else {
      append_unit(out, 0xD800 + ((point - 0x10000) >> 10));
      append_unit(out, 0xDC00 + ((point - 0x10000) & 0x3FF));
    }
  }
  out += '"';
}

void write_canonical_json(const Tree& tree, Value root, const TextSink& sink) {
  Writer writer(tree, sink);
  writer.write(root);
  writer.flush();
}

}  // namespace rlreplay::foreign

#include "format/foreign/array_values.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "format/foreign/text.h"
#include "format/foreign/tree_difference.h"
#include "src/base/found_text.h"

namespace rlreplay::foreign {
namespace {

bool is_valid(const ArrayDType& dtype) {
  const auto one_of = [&](std::initializer_list<int64_t> sizes) {
    return std::find(sizes.begin(), sizes.end(), dtype.size) != sizes.end();
  };
  switch (dtype.kind) {
    case 'b':
      return one_of({1});
    case 'i':
    case 'u':
      return one_of({1, 2, 4, 8});
    case 'f':
      return one_of({2, 4, 8});
    case 'c':
      return one_of({8, 16});
    case 'S':
      return dtype.size >= 0;
    case 'U':
      return dtype.size >= 0 && dtype.size % 4 == 0;
    default:
      return false;
  }
}

/// Units: bytes of what is swapped as one number.
int64_t swap_unit(const ArrayDType& dtype) {
  if (dtype.kind == 'U') return 4;
  return dtype.kind == 'c' ? dtype.size / 2 : dtype.size;
}

std::vector<int64_t> array_shape(const Tree& tree, Value value) {
  if (value.kind != Kind::kTuple)
    corrupt(unlike_text(tree, "an array's shape", &value, "not a tuple"));
  if (const size_t dims = tree.sequence(value).size(); dims > 64) {
    corrupt(found_text("an array of too many dimensions", std::to_string(dims), "at most 64"));
  }
  std::vector<int64_t> shape;
  for (const Value item : tree.sequence(value).values()) {
    if (item.kind != Kind::kInt || item.integer < 0) {
      corrupt(found_text("an array's shape holds something else than a size", in_words(tree, item),
                         "an integer of at least 0"));
    }
    shape.push_back(item.integer);
  }
  return shape;
}

// Where one size is 0 there are no bytes, whatever the others multiply to.
void check_size(const std::vector<int64_t>& shape, const ArrayDType& dtype, size_t bytes) {
  int64_t wanted = dtype.size;
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const int64_t size : shape) {
    if (!empty && __builtin_mul_overflow(wanted, size, &wanted))
      corrupt("an array's shape overflows");
  }
  if (empty) wanted = 0;
  if (static_cast<uint64_t>(wanted) != bytes) {
    corrupt("an array needs " + std::to_string(wanted) + " bytes, its state carries " +
            std::to_string(bytes));
  }
}

// Places `to` go through C order; `stride` are those of Fortran order, in bytes.
Bytes to_c_order(Tree& tree, const Array& array) {
  const size_t dims = array.shape.size();
  if (dims < 2 || array.data.empty()) return array.data;
  tree.work(array.data.size() * dims);
  tree.hold(array.data.size());
  std::string out(array.data.size(), '\0');
  const auto size = static_cast<size_t>(array.dtype.size);
  std::vector<int64_t> at(dims, 0);
  std::vector<size_t> stride(dims, size);
  for (size_t d = 1; d < dims; ++d)
    stride[d] = stride[d - 1] * static_cast<size_t>(array.shape[d - 1]);
  for (size_t to = 0; to < out.size(); to += size) {
    size_t from = 0;
    for (size_t d = 0; d < dims; ++d) from += static_cast<size_t>(at[d]) * stride[d];
    std::memcpy(out.data() + to, array.data.data() + from, size);
    for (size_t d = dims; d-- > 0;) {
      if (++at[d] < array.shape[d]) break;
      at[d] = 0;
    }
  }
  tree.give_back(out.size());  // own_bytes draws it
  return tree.own_bytes(std::move(out));
}

void to_little_endian(Tree& tree, Array& array) {
  if (array.dtype.order != '>') return;
  tree.work(array.data.size());
  tree.hold(array.data.size());
  std::string out(as_text(array.data));
  const auto unit = static_cast<size_t>(swap_unit(array.dtype));
  for (size_t i = 0; i + unit <= out.size(); i += unit) {
    std::reverse(out.begin() + static_cast<ptrdiff_t>(i),
                 out.begin() + static_cast<ptrdiff_t>(i + unit));
  }
  array.dtype.order = '<';
  tree.give_back(out.size());  // own_bytes draws it
  array.data = tree.own_bytes(std::move(out));
}

/// The argument as bytes: bytes, a bytearray, or (old numpy) a text of Latin-1.
Bytes raw_bytes(Tree& tree, Value value) {
  if (value.kind == Kind::kBytes || value.kind == Kind::kByteArray) {
    return as_bytes(tree.text(value));
  }
  if (value.kind == Kind::kText) {
    tree.work(tree.text(value).size());
    if (auto raw = utf8_to_latin1(tree.text(value))) return tree.own_bytes(std::move(*raw));
  }
  corrupt(unlike_text(tree, "an array's content", &value, "not bytes"));
}

const ArrayDType& dtype_of(const Tree& tree, Value value) {
  if (value.kind != Kind::kArrayDType)
    corrupt(unlike_text(tree, "an array's dtype", &value, "not a dtype"));
  return tree.array_dtype(value);
}

}  // namespace

Value make_array_dtype(Tree& tree, std::span<const Value> args) {
  if (args.empty() || args.size() > 3 || args[0].kind != Kind::kText) {
    corrupt("a numpy dtype is not made from its name: found " + row_in_words(tree, args));
  }
  std::string_view code = tree.text(args[0]);
  ArrayDType dtype;
  dtype.order = '<';
  if (code.size() > 1 && (code[0] == '<' || code[0] == '>' || code[0] == '|')) {
    dtype.order = code[0];
    code.remove_prefix(1);
  }
  if (!code.empty()) {
    dtype.kind = code[0];
    const auto read = std::from_chars(code.data() + 1, code.data() + code.size(), dtype.size);
    if (read.ptr != code.data() + code.size()) dtype.size = -1;
    if (dtype.kind == 'U' && dtype.size > 0 && dtype.size < (int64_t{1} << 40)) dtype.size *= 4;
  }
  if (!is_valid(dtype)) {
    throw Error(ErrorCode::kUnsupported, "numpy's dtype " + printable(tree.text(args[0])) +
                                             " (numbers, bools and plain texts are supported)");
  }
  if (dtype.size == 1 || dtype.kind == 'S') dtype.order = '|';
  return tree.add_array_dtype(dtype);
}

void set_array_dtype_state(Tree& tree, Value dtype, Value state) {
  if (state.kind != Kind::kTuple)
    corrupt(unlike_text(tree, "a numpy dtype's state", &state, "not a tuple"));
  const std::span<const Value> items = tree.sequence(state).values();
  if (items.size() != 8 || items[1].kind != Kind::kText || tree.text(items[1]).size() != 1) {
    throw Error(ErrorCode::kUnsupported,
                found_text("a numpy dtype with a state of another version",
                           std::to_string(items.size()) + " entries, the second " +
                               (items.size() > 1 ? in_words(tree, items[1]) : "missing"),
                           "8, the second a byte order"));
  }
  for (size_t i = 2; i < 5; ++i) {
    if (items[i].kind != Kind::kNone) {
      throw Error(ErrorCode::kUnsupported,
                  found_text("a numpy dtype with fields", in_words(tree, items[i]), "None"));
    }
  }
  ArrayDType& target = tree.array_dtype(dtype);
  const char order = tree.text(items[1])[0];
  if (order != '<' && order != '>' && order != '|' && order != '=') {
    corrupt(found_text("a numpy dtype's byte order is none", printable({&order, 1}),
                       "'<', '>', '|' or '='"));
  }
  const bool orderless = target.size == 1 || target.kind == 'S';
  if (!orderless) target.order = order == '>' ? '>' : '<';
  const bool sized = items[5].kind == Kind::kInt && items[5].integer != -1;
  if (sized && items[5].integer != target.size) {
    corrupt("a numpy dtype has two sizes, " + std::to_string(target.size) + " and " +
            std::to_string(items[5].integer));
  }
}

Value make_empty_array(Tree& tree, std::span<const Value> args) {
  if (args.size() != 3 || args[0].kind != Kind::kGlobal) {
    corrupt("an array is not reconstructed from (class, shape, code): found " +
            row_in_words(tree, args));
  }
  if (tree.global(args[0]).role != Role::kArrayClass) {
    throw Error(ErrorCode::kUnsafe, "an array of the class " + tree.global(args[0]).name);
  }
  return tree.add_array(Kind::kArray, {{'b', '|', 1}, {0}, {}});
}

void set_array_state(Tree& tree, Value array, Value state) {
  if (state.kind != Kind::kTuple)
    corrupt(unlike_text(tree, "an array's state", &state, "not a tuple"));
  const std::vector<Value> items(tree.sequence(state).values().begin(),
                                 tree.sequence(state).values().end());
  if (items.size() != 5 || items[3].kind != Kind::kBool) {
    corrupt("an array's state is not (version, shape, dtype, fortran, bytes): found " +
            row_in_words(tree, items));
  }
  Array made{dtype_of(tree, items[2]), array_shape(tree, items[1]), raw_bytes(tree, items[4])};
  check_size(made.shape, made.dtype, made.data.size());
  to_little_endian(tree, made);
  if (items[3].boolean) made.data = to_c_order(tree, made);
  tree.array(array) = std::move(made);
}

Value make_array_from_buffer(Tree& tree, std::span<const Value> args) {
  if (args.size() != 4 || args[3].kind != Kind::kText) {
    corrupt("an array is not made from (bytes, dtype, shape, order): found " +
            row_in_words(tree, args));
  }
  Array made{dtype_of(tree, args[1]), array_shape(tree, args[2]), raw_bytes(tree, args[0])};
  check_size(made.shape, made.dtype, made.data.size());
  const std::string_view order = tree.text(args[3]);
  if (order != "C" && order != "F") {
    corrupt(found_text("an array's order is another", printable(order), "'C' or 'F'"));
  }
  if (order == "F") made.data = to_c_order(tree, made);
  return tree.add_array(Kind::kArray, std::move(made));
}

Value make_array_scalar(Tree& tree, std::span<const Value> args) {
  if (args.size() != 2) {
    corrupt("a numpy scalar is not made from (dtype, bytes): found " + row_in_words(tree, args));
  }
  Array made{dtype_of(tree, args[0]), {}, raw_bytes(tree, args[1])};
  check_size(made.shape, made.dtype, made.data.size());
  to_little_endian(tree, made);
  return tree.add_array(Kind::kScalar, std::move(made));
}

}  // namespace rlreplay::foreign

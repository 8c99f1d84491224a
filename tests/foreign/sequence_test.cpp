#include <array>
#include <vector>

#include "format/foreign/numbers.h"
#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

using Packing = Sequence::Packing;

std::vector<Value> integers(std::initializer_list<int64_t> items) {
  std::vector<Value> values;
  for (const int64_t item : items) values.push_back(Value::of_int(item));
  return values;
}

std::vector<Value> floats(std::initializer_list<double> items) {
  std::vector<Value> values;
  for (const double item : items) values.push_back(Value::of_float(item));
  return values;
}

std::vector<double> seen(const Sequence& sequence) {
  return sequence.see_packed(
      [](auto items) { return std::vector<double>(items.begin(), items.end()); });
}

TEST_CASE("a list of numbers is seen in the type that it is packed in") {
  Sequence list;
  CHECK(seen(list).empty());
  list.append(integers({0, 255}), true);
  CHECK(list.packing() == Packing::kU8);
  CHECK(seen(list) == std::vector<double>{0, 255});
  list.append(integers({-7}), true);
  CHECK(list.packing() == Packing::kI32);
  CHECK(seen(list) == std::vector<double>{0, 255, -7});
  list.append(integers({int64_t{1} << 40}), true);
  CHECK(list.packing() == Packing::kI64);
  CHECK(seen(list) == std::vector<double>{0, 255, -7, 0x1p40});
  Sequence reals;
  reals.append(floats({-0.5}), true);
  CHECK(reals.packing() == Packing::kF32);
  CHECK(seen(reals) == std::vector<double>{-0.5});
  reals.append(floats({0.1}), true);
  CHECK(reals.packing() == Packing::kF64);
  CHECK(seen(reals) == std::vector<double>{-0.5, 0.1});
}

TEST_CASE("a list gives back what it has too much of once, and grows on by shares") {
  Sequence list;
  const std::vector<Value> piece(1000, Value::of_int(100000));
  list.append(piece, true);
  list.append(std::span(piece).first(1), true);
  CHECK(list.bytes() == 5000);
  list.fit();
  CHECK(list.bytes() == 4004);
  list.append(std::span(piece).first(1), true);
  CHECK(list.bytes() == 5005);
  list.fit();
  CHECK(list.bytes() == 5005);
  CHECK(list.size() == 1002);
  CHECK(list.integer(1001) == 100000);
}

TEST_CASE("a list that is cleared still says what it was") {
  Sequence list;
  list.append(floats({-1, -2}), true);
  list.clear();
  CHECK(list.size() == 0);
  CHECK(list.bytes() == 0);
  CHECK(list.is_floats());
  list.append(floats({-3}), true);
  CHECK(seen(list) == std::vector<double>{-3});
}

/// A contiguous tensor of int64.
Value add_tensor(Tree& tree, const std::vector<int64_t>& values) {
  Storage storage;
  storage.dtype = TorchDType::kInt64;
  storage.count = static_cast<int64_t>(values.size());
  storage.data = tree.own_bytes(
      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
  Tensor tensor;
  tensor.storage = tree.add_storage(storage).index;
  tensor.dtype = TorchDType::kInt64;
  tensor.count = storage.count;
  tensor.shape = {storage.count};
  tensor.stride = {1};
  return tree.add_tensor(tensor);
}

TEST_CASE("numbers are found by their place, in lists and in tensors of many pieces") {
  Tree tree;
  std::vector<int64_t> values(1300, 5);
  values[1200] = -1;
  const Value tensor = add_tensor(tree, values);
  const Value list = tree.add_sequence(Kind::kList);
  for (const int64_t value : values) {
    const Value item = Value::of_int(value);
    tree.sequence(list).append({&item, 1}, true);
  }
  for (const Value column : {tensor, list}) {
    const auto numbers = Numbers::of(tree, column);
    CHECK(numbers->find([](auto value) { return value < 0; }) == 1200);
    CHECK(numbers->find([](auto value) { return value > 0; }) == 0);
    CHECK_FALSE(numbers->find([](auto value) { return value > 5; }));
    size_t count = 0;
    numbers->for_each_piece([&](auto piece) {
      count += piece.size();
      return true;
    });
    CHECK(count == 1300);
    CHECK(numbers->is_narrow());
  }
  CHECK_FALSE(Numbers::of(tree, add_tensor(tree, {1, (1 << 24) + 1}))->is_narrow());
}

TEST_CASE("a tree counts what lies below its root") {
  Tree tree;
  const Value inner = tree.add_sequence(Kind::kList);
  const Value outer = tree.add_sequence(Kind::kTuple, std::array{inner, inner});
  const Value root = tree.add_sequence(Kind::kTuple, std::array{outer, inner});
  tree.add_sequence(Kind::kTuple, std::array{inner});  // below nothing
  CHECK(tree.uses(root) == std::vector<uint32_t>{3, 1, 0, 0});
  CHECK(tree.uses(Value()) == std::vector<uint32_t>{0, 0, 0, 0});
}

TEST_CASE("short texts do not refer to what they were read from") {
  Tree tree;
  std::string source = "a short text";
  std::string large(1000, 'x');
  std::vector<Value> texts;
  for (int i = 0; i < 5000; ++i) texts.push_back(tree.add_text(Kind::kText, source));
  const Value view = tree.add_text(Kind::kText, large);
  source = "something el";
  CHECK(tree.text(texts.front()) == "a short text");
  CHECK(tree.text(texts.back()) == "a short text");
  CHECK(tree.text(view).data() == large.data());
}

}  // namespace
}  // namespace rlreplay::foreign

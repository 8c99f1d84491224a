#include "format/foreign/tree_difference.h"

#include <catch2/catch.hpp>
#include <vector>

#include "format/foreign/tree_hash.h"

namespace rlreplay::foreign {
namespace {

Value text(Tree& tree, const std::string& text) { return tree.own_text(Kind::kText, text); }

/// Where two dicts of these keys and values differ, and what each says there.
std::string difference(const Tree& tree, Value x, Value y) {
  const auto found = tree_difference(tree, x, tree, y);
  return found ? found->place + ": " + found->a + ", " + found->b : "none";
}

TEST_CASE("keys that are no texts are compared too") {
  Tree tree;
  const auto dict = [&](Value key, const std::string& value) {
    return tree.add_sequence(Kind::kDict, std::vector{key, text(tree, value)});
  };
  const auto tuple = [&](int64_t item) {
    return tree.add_sequence(Kind::kTuple, std::vector{Value::of_int(item), Value::of_int(1)});
  };
  const Value three = Value::of_int(3);
  CHECK(difference(tree, dict(three, "a"), dict(three, "a")) == "none");
  CHECK(difference(tree, dict(three, "a"), dict(three, "b")) == "3: 'a', 'b'");
  CHECK(difference(tree, dict(three, "a"), dict(Value::of_float(3), "a")) == "none");
  CHECK(difference(tree, dict(three, "a"), dict(text(tree, "3"), "a")) == "3: 'a', nothing");
  CHECK(difference(tree, dict(tuple(1), "a"), dict(tuple(1), "a")) == "none");
  CHECK(difference(tree, dict(tuple(1), "a"), dict(tuple(2), "a")).ends_with(": 'a', nothing"));
}

TEST_CASE("the order of keys is no difference, and what one lacks is named") {
  Tree tree;
  const auto dict = [&](const std::vector<std::string>& keys) {
    std::vector<Value> items;
    for (const std::string& key : keys) {
      items.insert(items.end(), {text(tree, key), text(tree, key)});
    }
    return tree.add_sequence(Kind::kDict, items);
  };
  CHECK(difference(tree, dict({"a", "b", "c"}), dict({"c", "a", "b"})) == "none");
  CHECK(difference(tree, dict({"a", "b"}), dict({"b"})) == "a: 'a', nothing");
  CHECK(difference(tree, dict({"b"}), dict({"b", "a"})) == "a: nothing, 'a'");
}

/// Lists, tuples and dicts of numbers of several kinds, texts and None.
std::vector<Value> some_values(Tree& tree) {
  const Value one = Value::of_int(1), real = Value::of_float(1), yes = Value::of_bool(true);
  const Value half = Value::of_float(0.5), large = Value::of_int((int64_t{1} << 53) + 1);
  const Value word = text(tree, "1"), key = text(tree, "key");
  std::vector<Value> out = {one,
                            real,
                            yes,
                            half,
                            large,
                            Value::of_float(0x1p53),
                            word,
                            Value(),
                            Value::of_float(-0.0),
                            Value::of_int(0)};
  const std::vector<std::vector<Value>> rows = {
      {},           {one},        {real},     {yes},       {half, one},   {half, real},
      {one, one},   {real, real}, {yes, yes}, {word},      {one, word},   {real, word},
      {large, one}, {large},      {Value()},  {half, yes}, {Value(), one}};
  for (const auto& row : rows) {
    for (const Kind kind : {Kind::kList, Kind::kTuple}) {
      out.push_back(tree.add_sequence(kind, row));
      out.push_back(tree.add_sequence(Kind::kList, std::vector{out.back(), word}));
      out.push_back(tree.add_sequence(Kind::kDict, std::vector{key, out.back()}));
    }
  }
  return out;
}

TEST_CASE("what says the same has the same hash, and what does not has another") {
  Tree tree;
  const std::vector<Value> values = some_values(tree);
  size_t equal = 0;
  for (const Value x : values) {
    for (const Value y : values) {
      const std::string found = difference(tree, x, y);
      INFO(found);
      // Numbers of several kinds are compared one by one, with a list of one kind as wholes.
      if (found == "none") {
        ++equal;
        CHECK(tree_hash(tree, x) == tree_hash(tree, y));
      }
      const bool wholes = found.find("number") != found.npos || found.find("list") != found.npos;
      if (found != "none" && !wholes) CHECK(tree_hash(tree, x) != tree_hash(tree, y));
    }
  }
  CHECK(equal > values.size());
  Tree other;
  const Value list = tree.add_sequence(Kind::kList, std::vector{Value::of_int(3)});
  other.add_sequence(Kind::kList);  // so that the places differ
  CHECK(tree_hash(tree, list) ==
        tree_hash(other, other.add_sequence(Kind::kList, std::vector{Value::of_int(3)})));
}

TEST_CASE("many keys in another order take no quadratic time") {
  constexpr int kKeys = 600'000;  // whose square is beyond the patience of any run of the tests
  Tree tree;
  std::vector<Value> up, down;
  for (int i = 0; i < kKeys; ++i) {
    up.insert(up.end(), {text(tree, std::to_string(i)), Value::of_int(i)});
    const int k = kKeys - 1 - i;
    down.insert(down.end(), {text(tree, std::to_string(k)), Value::of_int(k)});
  }
  CHECK(difference(tree, tree.add_sequence(Kind::kDict, up),
                   tree.add_sequence(Kind::kDict, down)) == "none");
}

}  // namespace
}  // namespace rlreplay::foreign

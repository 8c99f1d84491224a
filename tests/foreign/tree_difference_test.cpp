#include "format/foreign/tree_difference.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

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

TEST_CASE("many keys in another order take no quadratic time") {
  constexpr int kKeys = 200000;
  Tree tree;
  std::vector<Value> up, down;
  for (int i = 0; i < kKeys; ++i) {
    up.insert(up.end(), {text(tree, std::to_string(i)), Value::of_int(i)});
    const int k = kKeys - 1 - i;
    down.insert(down.end(), {text(tree, std::to_string(k)), Value::of_int(k)});
  }
  const auto start = std::chrono::steady_clock::now();
  CHECK(difference(tree, tree.add_sequence(Kind::kDict, up),
                   tree.add_sequence(Kind::kDict, down)) == "none");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

}  // namespace
}  // namespace rlreplay::foreign

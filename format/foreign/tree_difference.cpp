#include "format/foreign/tree_difference.h"

#include <algorithm>
#include <set>
#include <utility>

#include "format/foreign/canonical_json.h"
#include "format/foreign/numbers.h"
#include "format/foreign/text.h"
#include "src/base/number_text.h"
#include "src/base/numbers.h"
#include "src/base/words.h"

namespace rlreplay::foreign {
namespace {

using Found = std::optional<TreeDifference>;

bool is_row(Value value) { return value.kind == Kind::kList || value.kind == Kind::kTuple; }

std::optional<double> number(Value value) {
  if (value.kind == Kind::kFloat) return value.real;
  if (value.kind == Kind::kInt) return static_cast<double>(value.integer);
  if (value.kind == Kind::kBool) return value.boolean ? 1 : 0;
  return std::nullopt;
}

std::string number_text(const Numbers& numbers, size_t i) {
  return numbers.is_integer() ? std::to_string(numbers.integer(i)) : shortest_of(numbers.real(i));
}

/// In quotes what is no plain name.
std::string key_text(std::string_view key) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  const bool name = !key.empty() && key.size() <= 80 && std::ranges::all_of(key, plain);
  return name ? std::string(key) : printable(key);
}

std::string canonical(const Tree& tree, Value value) {
  std::string out;
  write_canonical_json(tree, value, [&](std::string_view piece) { out += piece; });
  return out;
}

class Comparison {
 public:
  Comparison(const Tree& a, const Tree& b) : a_(a), b_(b) {}

  Found run(Value x, Value y) {
    if (const auto p = number(x), q = number(y); p && q) {
      const bool integers = x.kind == Kind::kInt && y.kind == Kind::kInt;
      return (integers ? x.integer == y.integer : same_value(*p, *q)) ? Found() : whole(x, y);
    }
    if (const auto p = Numbers::of(a_, x)) {
      if (const auto q = Numbers::of(b_, y)) return numbers(*p, *q, x, y);
    }
    if (is_record(x) && is_record(y)) return seen(x, y) ? Found() : records(x, y);
    if (is_row(x) && is_row(y)) return seen(x, y) ? Found() : rows(x, y);
    if (x.kind != y.kind) return whole(x, y);
    return canonical(a_, x) == canonical(b_, y) ? Found() : whole(x, y);
  }

 private:
  Found whole(Value x, Value y) const {
    return TreeDifference{"", in_words(a_, x), in_words(b_, y)};
  }

  /// A pair of parts that were compared: what is shared is looked at once.
  bool seen(Value x, Value y) { return !seen_.emplace(x.index, y.index).second; }

  Found numbers(const Numbers& p, const Numbers& q, Value x, Value y) const {
    const size_t common = std::min(p.size(), q.size());
    for (size_t i = 0; i < common; ++i) {
      const bool integers = p.is_integer() && q.is_integer();
      if (integers ? p.integer(i) == q.integer(i) : same_value(p.real(i), q.real(i))) continue;
      return TreeDifference{"[" + std::to_string(i) + "]", number_text(p, i), number_text(q, i)};
    }
    return p.size() == q.size() ? Found() : whole(x, y);
  }

  Found rows(Value x, Value y) {
    const Sequence &p = a_.sequence(x), &q = b_.sequence(y);
    for (size_t i = 0; i < std::min(p.size(), q.size()); ++i) {
      if (Found found = run(p[i], q[i])) return below("[" + std::to_string(i) + "]", *found);
    }
    return p.size() == q.size() ? Found() : whole(x, y);
  }

  /// By key, in whatever order: of the first one, then what only the second one has.
  Found records(Value x, Value y) {
    const size_t begin = x.kind == Kind::kObject ? 1 : 0, other = y.kind == Kind::kObject ? 1 : 0;
    const Sequence &p = a_.sequence(x), &q = b_.sequence(y);
    for (size_t i = begin; i + 1 < p.size(); i += 2) {
      if (p[i].kind != Kind::kText) continue;
      const std::string_view key = a_.text(p[i]);
      const Value* to = b_.find(y, key);
      if (to == nullptr) return TreeDifference{key_text(key), in_words(a_, p[i + 1]), "nothing"};
      if (Found found = run(p[i + 1], *to)) return below(key_text(key), *found);
    }
    for (size_t i = other; i + 1 < q.size(); i += 2) {
      if (q[i].kind != Kind::kText || a_.find(x, b_.text(q[i])) != nullptr) continue;
      return TreeDifference{key_text(b_.text(q[i])), "nothing", in_words(b_, q[i + 1])};
    }
    return std::nullopt;
  }

  static Found below(const std::string& name, TreeDifference found) {
    const bool dot = !found.place.empty() && found.place.front() != '[';
    found.place.insert(0, name + (dot ? "." : ""));
    return found;
  }

  const Tree& a_;
  const Tree& b_;
  std::set<std::pair<uint32_t, uint32_t>> seen_;
};

}  // namespace

std::string in_words(const Tree& tree, Value value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.boolean ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.integer);
    case Kind::kFloat:
      return shortest_of(value.real);
    case Kind::kText:
      return printable(tree.text(value));
    default:
      break;
  }
  if (const auto numbers = Numbers::of(tree, value)) {
    return numbers->size() == 1 && value.kind != Kind::kList ? number_text(*numbers, 0)
                                                             : counted(numbers->size(), "number");
  }
  if (is_record(value)) {
    const size_t keys = tree.sequence(value).size() / 2;
    return "a record of " + counted(keys, "field");
  }
  if (is_row(value)) return "a list of " + std::to_string(tree.sequence(value).size());
  return "something else";
}

std::optional<TreeDifference> tree_difference(const Tree& a, Value x, const Tree& b, Value y) {
  return Comparison(a, b).run(x, y);
}

}  // namespace rlreplay::foreign

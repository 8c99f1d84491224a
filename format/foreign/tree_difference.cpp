#include "format/foreign/tree_difference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "format/foreign/canonical_json.h"
#include "format/foreign/numbers.h"
#include "format/foreign/text.h"
#include "src/base/ascii.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"
#include "src/base/words.h"

namespace rlreplay::foreign {
namespace {

using Found = std::optional<TreeDifference>;

/// An integer equals the float of its value, and no float that it is only rounded to.
bool same_number(int64_t x, double y) {
  return y >= -0x1p63 && y < 0x1p63 && static_cast<int64_t>(y) == x &&
         same_value(static_cast<double>(x), y);
}

bool is_row(Value value) { return value.kind == Kind::kList || value.kind == Kind::kTuple; }

std::string number_text(const Numbers& numbers, size_t i) {
  return numbers.is_integer() ? std::to_string(numbers.integer(i)) : shortest_of(numbers.real(i));
}

/// A key as the place of a difference shows it: in quotes where it is no plain name.
std::string key_text(std::string_view key) {
  const auto plain = [](char c) { return is_word_character(c) || c == '-'; };
  const bool name = !key.empty() && key.size() <= 80 && std::ranges::all_of(key, plain);
  return name ? std::string(key) : printable(key);
}

std::string canonical(const Tree& tree, Value value) {
  std::string out;
  write_canonical_json(tree, value, [&](std::string_view piece) { out += piece; });
  return out;
}

using Items = std::span<const Value>;

/// Keys and values by turns.
Items items(const Tree& tree, Value record) {
  return tree.sequence(record).values().subspan(record.kind == Kind::kObject ? 1 : 0);
}

/// What equal keys have in common. As in Python 1, 1.0 and True are one key, and "1" is another.
std::string key_of(const Tree& tree, Value key) {
  if (key.kind == Kind::kText) return "'" + std::string(tree.text(key));
  const std::optional<double> real = key.kind == Kind::kInt ? std::nullopt : number_of(key);
  const bool whole = real && std::abs(*real) < 0x1p63 && std::trunc(*real) == *real;
  return canonical(tree, whole ? Value::of_int(static_cast<int64_t>(*real)) : key);
}

std::string key_text(const Tree& tree, Value key) {
  if (key.kind == Kind::kText) return key_text(tree.text(key));
  return number_of(key) ? in_words(tree, key) : printable(canonical(tree, key));
}

/// Ends at the first difference, so a pair of parts that is met again was equal or is being
/// compared: what is shared is gone through once, however often it is named.
class Comparison {
 public:
  Comparison(const Tree& a, const Tree& b) : a_(a), b_(b) {}

  Found run(Value x, Value y) {
    if (const auto p = number_of(x), q = number_of(y); p && q) {
      return same(x, *p, y, *q) ? Found() : whole(x, y);
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

  static bool same(Value x, double real_x, Value y, double real_y) {
    const bool integer_x = x.kind == Kind::kInt, integer_y = y.kind == Kind::kInt;
    if (integer_x && integer_y) return x.integer == y.integer;
    if (integer_x) return same_number(x.integer, real_y);
    return integer_y ? same_number(y.integer, real_x) : same_value(real_x, real_y);
  }

  static bool same(const Numbers& p, const Numbers& q, size_t i) {
    if (p.is_integer() && q.is_integer()) return p.integer(i) == q.integer(i);
    if (p.is_integer()) return same_number(p.integer(i), q.real(i));
    if (q.is_integer()) return same_number(q.integer(i), p.real(i));
    return same_value(p.real(i), q.real(i));
  }

  Found numbers(const Numbers& p, const Numbers& q, Value x, Value y) const {
    const size_t common = std::min(p.size(), q.size());
    for (size_t i = 0; i < common; ++i) {
      if (same(p, q, i)) continue;
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

  /// The first difference of two dicts, by key and in whatever order: of the keys of `x`, then of
  /// those that only `y` has.
  Found records(Value x, Value y) {
    const Items p = items(a_, x), q = items(b_, y);
    const bool in_order = have_keys_in_order(p, q);
    Index others = in_order ? Index() : index(q);
    for (size_t i = 0; i + 1 < p.size(); i += 2) {
      const Value* to = in_order ? &q[i + 1] : take(others, key_of(a_, p[i]));
      if (to == nullptr) {
        return TreeDifference{key_text(a_, p[i]), in_words(a_, p[i + 1]), "nothing"};
      }
      if (Found found = run(p[i + 1], *to)) return below(key_text(a_, p[i]), *found);
    }
    for (size_t i = 0; !in_order && i + 1 < q.size(); i += 2) {
      if (others.at(key_of(b_, q[i])).met) continue;
      return TreeDifference{key_text(b_, q[i]), "nothing", in_words(b_, q[i + 1])};
    }
    return std::nullopt;
  }

  bool have_keys_in_order(Items p, Items q) const {
    if (p.size() != q.size()) return false;
    for (size_t i = 0; i + 1 < p.size(); i += 2) {
      const bool texts = p[i].kind == Kind::kText && q[i].kind == Kind::kText;
      if (texts ? a_.text(p[i]) != b_.text(q[i]) : key_of(a_, p[i]) != key_of(b_, q[i])) {
        return false;
      }
    }
    return true;
  }

  struct Other {
    const Value* value;
    bool met = false;
  };
  using Index = std::map<std::string, Other>;

  /// The values of a dict of the second tree, by key: the last one where a key occurs twice, as
  /// Tree::find has it.
  Index index(Items q) const {
    Index out;
    for (size_t i = 0; i + 1 < q.size(); i += 2) {
      out.insert_or_assign(key_of(b_, q[i]), Other{&q[i + 1]});
    }
    return out;
  }

  static const Value* take(Index& others, const std::string& key) {
    const auto found = others.find(key);
    if (found == others.end()) return nullptr;
    found->second.met = true;
    return found->second.value;
  }

  static Found below(const std::string& name, TreeDifference found) {
    found.place = place_in(name, found.place);
    return found;
  }

  const Tree& a_;
  const Tree& b_;
  std::set<std::pair<uint32_t, uint32_t>> seen_;
};

}  // namespace

std::string place_in(const std::string& name, const std::string& place) {
  const bool dot = !place.empty() && place.front() != '[';
  return name + (dot ? "." : "") + place;
}

namespace {

/// How many numbers a tensor or an array holds, by its shape: a tensor of few stored bytes may be
/// expanded to many, which a message is no reason to copy. Nothing of other values.
std::optional<size_t> count_of(const Tree& tree, Value value) {
  if (value.kind == Kind::kTensor) return static_cast<size_t>(tree.tensor(value).count);
  if (value.kind != Kind::kArray) return std::nullopt;
  const Array& array = tree.array(value);
  if (array.dtype.kind == 'S' || array.dtype.kind == 'U') return std::nullopt;
  return array.data.size() / static_cast<size_t>(array.dtype.size);
}

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
  const std::optional<size_t> stored = count_of(tree, value);
  if (stored && *stored != 1) return counted(*stored, "number");
  if (const auto numbers = Numbers::of(tree, value)) {
    return stored ? number_text(*numbers, 0) : counted(numbers->size(), "number");
  }
  if (is_record(value)) {
    const size_t keys = tree.sequence(value).size() / 2;
    return "a record of " + counted(keys, "field");
  }
  if (is_row(value)) return "a list of " + std::to_string(tree.sequence(value).size());
  return "something else";
}

std::string row_in_words(const Tree& tree, std::span<const Value> row) {
  constexpr size_t kMost = 8;
  std::string out = counted(row.size(), "part");
  for (size_t i = 0; i < std::min(row.size(), kMost); ++i) {
    out.append(i == 0 ? ": " : ", ").append(in_words(tree, row[i]));
  }
  return row.size() > kMost ? out + ", ..." : out;
}

namespace {

/// A value with its kind where its number alone does not say it.
std::string with_kind(const Tree& tree, Value value) {
  const std::string text = in_words(tree, value);
  if (value.kind == Kind::kFloat) return "the float " + text;
  const bool is_one = value.kind == Kind::kInt || value.kind == Kind::kBool ||
                      value.kind == Kind::kText || value.kind == Kind::kNone;
  const bool many = count_of(tree, value).value_or(1) != 1;
  const auto numbers = is_one || many ? std::nullopt : Numbers::of(tree, value);
  return numbers && numbers->size() == 1
             ? "one number in a list or tensor, " + number_text(*numbers, 0)
             : text;
}

}  // namespace

std::string unlike_text(const Tree& tree, std::string_view key, const Value* value,
                        std::string_view what) {
  if (value == nullptr) return std::string(key) + " is missing";
  return std::string(key).append(" is ").append(what) + ": found " + with_kind(tree, *value);
}

std::optional<TreeDifference> tree_difference(const Tree& a, Value x, const Tree& b, Value y) {
  return Comparison(a, b).run(x, y);
}

}  // namespace rlreplay::foreign

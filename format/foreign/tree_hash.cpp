#include "format/foreign/tree_hash.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "format/foreign/canonical_json.h"
#include "format/foreign/numbers.h"

namespace rlreplay::foreign {
namespace {

/// Hashes a text that says what is hashed, and then its parts: texts, words, hashes.
class PartHasher {
 public:
  explicit PartHasher(std::string_view what) { add(std::string(what) + "\n"); }

  void add(std::string_view text) { hasher_.update(std::as_bytes(std::span(text))); }
  void add(uint64_t word) { hasher_.update(std::as_bytes(std::span(&word, 1))); }
  void add(const Hash& part) {
    add(part.high);
    add(part.low);
  }
  Hash finish() const { return hasher_.finish(); }

 private:
  Hasher hasher_;
};

/// An integer as the binary64 of its value, where there is one; every NaN as the same one.
template <class Number>
void add_number(PartHasher& hasher, Number x) {
  const auto real = static_cast<double>(x);
  if constexpr (std::is_integral_v<Number>) {
    const auto wide = static_cast<int64_t>(x);
    const bool exact = real < 0x1p63 && static_cast<int64_t>(real) == wide;
    if (!exact) return hasher.add("integer " + std::to_string(wide));
  }
  hasher.add(
      std::bit_cast<uint64_t>(std::isnan(real) ? std::numeric_limits<double>::quiet_NaN() : real));
}

/// The hash of a list or a record does not depend on where it stands: `known_` holds it for all
/// places that share it.
class TreeHasher {
 public:
  explicit TreeHasher(const Tree& tree) : tree_(tree) {}

  Hash of(Value value) {
    if (number_of(value)) {
      PartHasher hasher("number");
      add(hasher, value);
      return hasher.finish();
    }
    if (const auto numbers = Numbers::of(tree_, value)) return of_numbers(*numbers);
    const bool row = value.kind == Kind::kList || value.kind == Kind::kTuple;
    if (!row && !is_record(value)) return of_canonical(value);
    // What is shared is looked at once.
    if (const auto known = known_.find(value.index); known != known_.end()) return known->second;
    const Hash made = row ? of_row(value) : of_record(value);
    known_.emplace(value.index, made);
    return made;
  }

 private:
  static Hash of_numbers(const Numbers& numbers) {
    PartHasher hasher("numbers " + std::to_string(numbers.size()));
    numbers.for_each_piece([&](auto piece) {
      for (const auto x : piece) add_number(hasher, x);
      return true;
    });
    return hasher.finish();
  }

  Hash of_canonical(Value value) const {
    PartHasher hasher("value");
    write_canonical_json(tree_, value, [&](std::string_view piece) { hasher.add(piece); });
    return hasher.finish();
  }

  /// The hash of a list. Numbers of several kinds (1, 2.5, True) hash as a list of one kind does.
  Hash of_row(Value value) {
    const Sequence& row = tree_.sequence(value);
    bool numbers = true;
    for (size_t i = 0; numbers && i < row.size(); ++i) numbers = number_of(row[i]).has_value();
    PartHasher hasher((numbers ? "numbers " : "row ") + std::to_string(row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      if (!numbers) {
        hasher.add(of(row[i]));
      } else {
        add(hasher, row[i]);
      }
    }
    return hasher.finish();
  }

  static void add(PartHasher& hasher, Value number) {
    if (number.kind == Kind::kInt) return add_number(hasher, number.integer);
    add_number(hasher, *number_of(number));
  }

  /// The hash of a dict or object. Of equal keys the last one's value counts, as in Tree::find.
  Hash of_record(Value value) {
    const auto items = tree_.sequence(value).values();
    std::map<Hash, Hash> parts;
    for (size_t i = value.kind == Kind::kObject ? 1 : 0; i + 1 < items.size(); i += 2) {
      parts.insert_or_assign(of(items[i]), of(items[i + 1]));
    }
    PartHasher hasher("record " + std::to_string(parts.size()));
    for (const auto& [key, part] : parts) {
      hasher.add(key);
      hasher.add(part);
    }
    return hasher.finish();
  }

  const Tree& tree_;
  std::unordered_map<uint32_t, Hash> known_;  // by place of the sequence
};

}  // namespace

Hash tree_hash(const Tree& tree, Value value) { return TreeHasher(tree).of(value); }

}  // namespace rlreplay::foreign

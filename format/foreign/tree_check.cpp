#include "format/foreign/tree_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <numeric>

#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kMaxDepth = 1000;
constexpr uint64_t kAlwaysAllowed = 1 << 20;
constexpr uint64_t kMaxSharing = 64;  // values for each byte of the file

/// What the walk holds of each sequence: mark, weight, depth, and its place in the order.
constexpr uint64_t kWalkBytes = 1 + 8 + 4 + sizeof(Value);

enum class Mark : uint8_t { kNew, kOpen, kDone };

/// Depth-first walk over the parts of a tree, without recursion.
class Walk {
 public:
  Walk(const Tree& tree, uint64_t allowed)
      : tree_(tree),
        allowed_(allowed),
        marks_(tree.sequences(), Mark::kNew),
        weights_(tree.sequences(), 0),
        depths_(tree.sequences(), 0) {}

  /// The sequences below `root`, each once, children first.
  std::vector<Value> run(Value root) {
    weigh(root);
    enter(root);
    while (!open_.empty()) step();
    return std::move(order_);
  }

 private:
  struct Frame {
    Value value;
    size_t next;
  };

  void enter(Value value) {
    if (!is_sequence(value.kind)) return;
    Mark& mark = marks_[value.index];
    if (mark == Mark::kDone) return;
    if (mark == Mark::kOpen) {
      throw Error(ErrorCode::kUnsupported, "the content is cyclic: a container holds itself");
    }
    if (open_.size() == kMaxDepth) refuse_depth();
    mark = Mark::kOpen;
    open_.push_back({value, 0});
  }

  void step() {
    Frame& frame = open_.back();
    const Sequence& sequence = tree_.sequence(frame.value);
    if (sequence.packing() == Sequence::Packing::kValues && frame.next < sequence.size()) {
      enter(sequence.values()[frame.next++]);
      return;
    }
    leave(frame.value, sequence);
    open_.pop_back();
  }

  [[noreturn]] static void refuse_depth() {
    throw Error(ErrorCode::kCorrupt,
                "the content is nested more than " + std::to_string(kMaxDepth) + " levels deep");
  }

  void leave(Value value, const Sequence& sequence) {
    uint64_t weight = 1;
    uint32_t depth = 0;
    if (sequence.packing() == Sequence::Packing::kValues) {
      for (const Value child : sequence.values()) {
        weight += weigh(child);
        if (is_sequence(child.kind)) depth = std::max(depth, depths_[child.index]);
        check_weight(weight);
      }
    } else {
      weight += sequence.size();
      check_weight(weight);
    }
    if (depth + 1 > kMaxDepth) refuse_depth();
    weights_[value.index] = weight;
    depths_[value.index] = depth + 1;
    marks_[value.index] = Mark::kDone;
    order_.push_back(value);
  }

  uint64_t weigh(Value value) const {
    switch (value.kind) {
      case Kind::kBigInt:
      case Kind::kText:
      case Kind::kBytes:
      case Kind::kByteArray:
      case Kind::kTorchDevice:
        return 1 + tree_.text(value).size() / 8;
      case Kind::kArray:
      case Kind::kScalar:
        return 1 + tree_.array(value).data.size() / 8;
      case Kind::kStorage:
        throw Error(ErrorCode::kUnsupported, "a storage stands alone, without a tensor");
      case Kind::kTensor: {
        const Tensor& tensor = tree_.tensor(value);
        return 1 + static_cast<uint64_t>(tensor.count * item_size(tensor.dtype)) / 8;
      }
      default:
        return is_sequence(value.kind) ? weights_[value.index] : 1;
    }
  }

  void check_weight(uint64_t weight) const {
    if (weight > allowed_) {
      throw Error(ErrorCode::kCorrupt,
                  "the content shares its parts so often that it would grow to more than " +
                      std::to_string(allowed_) + " values");
    }
  }

  const Tree& tree_;
  const uint64_t allowed_;
  std::vector<Mark> marks_;
  std::vector<uint64_t> weights_;
  std::vector<uint32_t> depths_;
  std::vector<Frame> open_;
  std::vector<Value> order_;
};

/// A total order of keys in which equal means equal in Python: 1, 1.0 and True are one key.
class KeyOrder {
 public:
  explicit KeyOrder(const Tree& tree) : tree_(tree) {}

  std::strong_ordering compare(Value a, Value b) const {
    if (const auto order = family(a) <=> family(b); order != 0) return order;
    switch (a.kind) {
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        return compare_numbers(a, b);
      case Kind::kBigInt:
      case Kind::kText:
      case Kind::kBytes:
        return tree_.text(a).compare(tree_.text(b)) <=> 0;
      case Kind::kTuple:
      case Kind::kFrozenSet:
      case Kind::kEnum:
        return compare_sequences(tree_.sequence(a).values(), tree_.sequence(b).values());
      case Kind::kGlobal: {
        const Global& x = tree_.global(a);
        const Global& y = tree_.global(b);
        return (x.module + "." + x.name).compare(y.module + "." + y.name) <=> 0;
      }
      case Kind::kNone:
        return std::strong_ordering::equal;
      default:
        throw Error(ErrorCode::kCorrupt, "a key holds a list, dict or set, which Python refuses");
    }
  }

 private:
  static int family(Value value) {
    const bool number =
        value.kind == Kind::kBool || value.kind == Kind::kInt || value.kind == Kind::kFloat;
    return number ? 1000 : static_cast<int>(value.kind);
  }

  /// Integers that are no floats of int64 range come after those that are, by their bits.
  static std::strong_ordering compare_numbers(Value a, Value b) {
    const auto key = [](Value value) -> std::pair<int, int64_t> {
      if (value.kind == Kind::kBool) return {0, value.boolean ? 1 : 0};
      if (value.kind == Kind::kInt) return {0, value.integer};
      const double real = value.real;
      const bool whole = real >= -0x1p63 && real < 0x1p63 && std::floor(real) == real;
      if (whole) return {0, static_cast<int64_t>(real)};
      return {1, std::bit_cast<int64_t>(real)};
    };
    return key(a) <=> key(b);
  }

  std::strong_ordering compare_sequences(std::span<const Value> a, std::span<const Value> b) const {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (const auto order = compare(a[i], b[i]); order != 0) return order;
    }
    return a.size() <=> b.size();
  }

  const Tree& tree_;
};

/// Merges equal keys of the items from `begin` on, `width` values an item, in place.
/// The key of the first duplicate, or nothing.
const Value* settle(const KeyOrder& keys, Sequence& sequence, size_t begin, size_t width,
                    std::vector<Value>& duplicates) {
  const std::span<const Value> items = sequence.values().subspan(begin);
  const size_t count = items.size() / width;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return keys.compare(items[a * width], items[b * width]) < 0;
  });
  std::vector<bool> dropped(count, false);
  for (size_t i = 0, first = 0; i < count; ++i) {
    const bool same =
        i > 0 && keys.compare(items[order[first] * width], items[order[i] * width]) == 0;
    if (!same) {
      first = i;
      continue;
    }
    duplicates.push_back(items[order[i] * width]);
    dropped[order[i]] = true;
    const size_t from = begin + order[i] * width;
    if (width == 2) sequence.set(begin + order[first] * width + 1, sequence[from + 1]);
  }
  if (duplicates.empty()) return nullptr;
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (dropped[i]) continue;
    for (size_t j = 0; j < width; ++j) {
      sequence.set(begin + kept * width + j, sequence[begin + i * width + j]);
    }
    ++kept;
  }
  sequence.truncate(begin + kept * width);
  return &duplicates.front();
}

std::string key_name(const Tree& tree, Value key) {
  if (key.kind == Kind::kText) return printable(tree.text(key));
  if (key.kind == Kind::kInt) return std::to_string(key.integer);
  return "a key";
}

}  // namespace

std::vector<Problem> check_tree(Tree& tree, Value root, size_t bytes) {
  const uint64_t allowed = std::max(kAlwaysAllowed, bytes * kMaxSharing);
  const uint64_t walk = tree.sequences() * kWalkBytes;
  tree.hold(walk);
  const std::vector<Value> parts = Walk(tree, allowed).run(root);
  const KeyOrder keys(tree);
  std::vector<Problem> problems;
  for (const Value part : parts) {
    const bool set = part.kind == Kind::kSet || part.kind == Kind::kFrozenSet;
    const bool dict = part.kind == Kind::kDict || part.kind == Kind::kOrderedDict;
    const bool object = part.kind == Kind::kObject;
    Sequence& sequence = tree.sequence(part);
    if ((!set && !dict && !object) || sequence.size() < 2) continue;
    const uint64_t sorting = sequence.size() * sizeof(size_t) * 2;
    tree.work(sequence.size() * static_cast<size_t>(std::bit_width(sequence.size())));
    tree.hold(sorting);
    std::vector<Value> duplicates;
    const Value* key = settle(keys, sequence, object ? 1 : 0, set ? 1 : 2, duplicates);
    tree.give_back(sorting);
    if (key == nullptr) continue;
    problems.push_back({"duplicate-key",
                        key_name(tree, *key) + " occurs twice in one " + (set ? "set" : "dict") +
                            "; the last one counts",
                        ""});
  }
  tree.give_back(walk);
  return problems;
}

}  // namespace rlreplay::foreign

#include "format/foreign/tree.h"

#include <cstring>
#include <utility>

namespace rlreplay::foreign {
namespace {

constexpr size_t kShort = 64;
constexpr size_t kShelf = size_t{1} << 14;

}  // namespace

template <class Container, class Item>
Value Tree::add(Container& container, Item&& item, Kind kind) {
  if (container.size() >= UINT32_MAX) {
    throw Error(ErrorCode::kUnsupported, "the pickle holds more than four thousand million parts");
  }
  hold(sizeof(item));
  container.push_back(std::forward<Item>(item));
  return Value::node(kind, static_cast<uint32_t>(container.size() - 1));
}

const Value* Tree::find(Value dict, std::string_view key) const {
  size_t i = 0;
  if (dict.kind == Kind::kObject) {
    i = 1;  // behind the class
  } else if (dict.kind != Kind::kDict && dict.kind != Kind::kOrderedDict) {
    return nullptr;
  }
  const Value* found = nullptr;
  const std::span<const Value> items = sequence(dict).values();
  for (; i + 1 < items.size(); i += 2) {
    if (items[i].kind == Kind::kText && text(items[i]) == key) found = &items[i + 1];
  }
  return found;
}

std::optional<int64_t> Tree::integer(Value dict, std::string_view key) const {
  const Value* value = find(dict, key);
  return value != nullptr && value->kind == Kind::kInt ? std::optional(value->integer)
                                                       : std::nullopt;
}

Value Tree::add_sequence(Kind kind) { return add(sequences_, Sequence(), kind); }

Value Tree::add_sequence(Kind kind, std::span<const Value> values) {
  const Value made = add_sequence(kind);
  append(made, values, kind == Kind::kList);
  return made;
}

Value Tree::add_text(Kind kind, std::string_view text) {
  return add(texts_, text.empty() || text.size() > kShort ? text : copy(text), kind);
}

std::string_view Tree::copy(std::string_view text) {
  if (shelves_.empty() || kShelf - shelf_used_ < text.size()) {
    hold(kShelf);
    shelves_.push_back(std::make_unique_for_overwrite<char[]>(kShelf));
    shelf_used_ = 0;
  }
  char* to = shelves_.back().get() + shelf_used_;
  std::memcpy(to, text.data(), text.size());
  shelf_used_ += text.size();
  return {to, text.size()};
}

Value Tree::own_text(Kind kind, std::string text) {
  if (text.size() <= kShort) return add_text(kind, text);
  hold(sizeof(text) + text.size());
  owned_.push_back(std::move(text));
  return add_text(kind, owned_.back());
}

Value Tree::add_global(Global global) {
  hold(global.module.size() + global.name.size());
  return add(globals_, std::move(global), Kind::kGlobal);
}

Value Tree::add_storage(const Storage& storage) { return add(storages_, storage, Kind::kStorage); }

Value Tree::add_tensor(Tensor tensor) {
  hold((tensor.shape.size() + tensor.stride.size()) * sizeof(int64_t));
  return add(tensors_, std::move(tensor), Kind::kTensor);
}

Value Tree::add_array(Kind kind, Array array) {
  hold(array.shape.size() * sizeof(int64_t));
  return add(arrays_, std::move(array), kind);
}

Value Tree::add_array_dtype(const ArrayDType& dtype) {
  return add(array_dtypes_, dtype, Kind::kArrayDType);
}

std::vector<uint32_t> Tree::uses(Value root) const {
  std::vector<uint32_t> counts(sequences_.size(), 0);
  std::vector<Value> open;
  if (is_sequence(root.kind)) open.push_back(root);
  while (!open.empty()) {
    const Sequence& items = sequence(open.back());
    open.pop_back();
    if (items.packing() != Sequence::Packing::kValues) continue;
    for (const Value item : items.values()) {
      // Opened at its first use alone: lists used twice on every level would take exponential time.
      if (is_sequence(item.kind) && counts[item.index]++ == 0) open.push_back(item);
    }
  }
  return counts;
}

Bytes Tree::own_bytes(std::string bytes) {
  hold(sizeof(bytes) + bytes.size());
  owned_.push_back(std::move(bytes));
  return as_bytes(owned_.back());
}

}  // namespace rlreplay::foreign

#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "format/foreign/tree.h"

namespace rlreplay::replay {

/// Builds dicts with texts as keys, every text one part of the tree, and what lies in them.
class Dicts {
 public:
  explicit Dicts(foreign::Tree& tree) : tree_(tree) {}

  foreign::Value make() { return tree_.add_sequence(foreign::Kind::kDict); }

  void set(foreign::Value dict, const std::string& key, foreign::Value value) {
    const foreign::Value item[] = {text(key), value};
    tree_.sequence(dict).append(item, false);
  }

  foreign::Value text(const std::string& text) {
    const auto [it, fresh] = texts_.emplace(text, foreign::Value());
    if (fresh) it->second = tree_.own_text(foreign::Kind::kText, text);
    return it->second;
  }

  template <class T>
  foreign::Value integers(const std::vector<T>& values) {
    const foreign::Value list = tree_.add_sequence(foreign::Kind::kList);
    for (const T value : values) {
      const foreign::Value item = foreign::Value::of_int(static_cast<int64_t>(value));
      tree_.sequence(list).append({&item, 1}, true);
    }
    return list;
  }

  /// A contiguous tensor of one dimension; of none, a number, with `scalar`.
  foreign::Value tensor(foreign::TorchDType dtype, std::string bytes, bool scalar = false) {
    foreign::Tensor made;
    made.dtype = dtype;
    made.count = static_cast<int64_t>(bytes.size()) / foreign::item_size(dtype);
    if (!scalar) {
      made.shape = {made.count};
      made.stride = {1};
    }
    foreign::Storage storage;
    const foreign::Value key = text(std::to_string(tree_.storages().size()));
    storage.key = tree_.text(key);
    storage.location = tree_.text(text("cpu"));
    storage.count = made.count;
    storage.dtype = dtype;
    storage.data = tree_.own_bytes(std::move(bytes));
    made.storage = tree_.add_storage(storage).index;
    return tree_.add_tensor(std::move(made));
  }

 private:
  foreign::Tree& tree_;
  std::map<std::string, foreign::Value> texts_;
};

}  // namespace rlreplay::replay

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// Where two values say something different, and what each says there.
struct TreeDifference {
  std::string place;  // "rollout_data.rewards[3]"; empty: the values themselves
  std::string a, b;
};

/// The first difference of two values, each of its tree, in the order of the first one. Numbers are
/// compared as numbers, in whatever list, tensor or array they lie; where a tensor was stored is no
/// part of what it says.
[[nodiscard]] std::optional<TreeDifference> tree_difference(const Tree& a, Value x, const Tree& b,
                                                            Value y);

/// A place below a named one: "rewards[3]", "metadata.seed"; the name itself where it is empty.
[[nodiscard]] std::string place_in(const std::string& name, const std::string& place);

/// A value in a few words: "0.5", "'thd'", "a list of 3".
[[nodiscard]] std::string in_words(const Tree& tree, Value value);

/// What stands in a row, of many the first: "2 parts: 'cpu', None".
[[nodiscard]] std::string row_in_words(const Tree& tree, std::span<const Value> row);

/// "KEY is missing", or "KEY is WHAT: found VALUE", as in "step is not an integer: found the float
/// 3".
[[nodiscard]] std::string unlike_text(const Tree& tree, std::string_view key, const Value* value,
                                      std::string_view what);

}  // namespace rlreplay::foreign

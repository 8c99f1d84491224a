#pragma once

#include <span>
#include <string>
#include <vector>

#include "format/foreign/torch_values.h"
#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// What a pickle may call: each known function is a rule that builds data from data.
class PickleCalls {
 public:
  PickleCalls(Tree& tree, const RecordSource& records) : tree_(tree), torch_(tree, records) {}

  /// callable(*args). Errors: kUnsafe for a call outside the rules, kCorrupt for wrong arguments.
  Value reduce(Value callable, Value args);

  /// cls.__new__(cls, *args): an object of a known class, without attributes.
  Value new_object(Value cls, Value args);

  /// Gives `target` its pickled state.
  void build(Value target, Value state);

  /// What a persistent id names.
  Value persistent(Value id) { return torch_.persistent(id); }

  /// A value's kind in words for messages.
  std::string describe(Value value) const;

  /// Errors: kCorrupt where the value cannot be a dict's key or a set's item.
  void check_hashable(Value value) const;

 private:
  std::vector<Value> copy_of(Value from);
  Value reduce_builtin(Role role, std::span<const Value> args);
  Value ordered_dict(std::span<const Value> args);
  Value encode(std::span<const Value> args);
  Value byte_array(std::span<const Value> args);
  Value set_of(Kind kind, std::span<const Value> args);
  Value attribute(std::span<const Value> args);
  Value device(std::span<const Value> args);
  Value size_of(std::span<const Value> args);
  Value enumerator(Value cls, std::span<const Value> args);
  void build_object(Value target, Value state);

  Tree& tree_;
  TorchValues torch_;
};

}  // namespace rlreplay::foreign

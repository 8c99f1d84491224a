#include "format/foreign/pickle_calls.h"

#include <algorithm>
#include <vector>

#include "format/foreign/array_values.h"
#include "format/foreign/pickle_globals.h"
#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

[[noreturn]] void unsafe(const std::string& message) { throw Error(ErrorCode::kUnsafe, message); }

void check_count(std::span<const Value> args, size_t count, const char* what) {
  if (args.size() != count) {
    corrupt(std::string(what) + " takes " + std::to_string(count) +
            " arguments, the pickle gives " + std::to_string(args.size()));
  }
}

void check_kinds(std::span<const Value> args, std::initializer_list<Kind> allowed,
                 const char* what) {
  for (const Value arg : args) {
    if (std::find(allowed.begin(), allowed.end(), arg.kind) == allowed.end()) {
      corrupt(std::string(what) + " is given an argument of the wrong type");
    }
  }
}

}  // namespace

std::string PickleCalls::describe(Value value) const {
  switch (value.kind) {
    case Kind::kGlobal:
      return tree_.global(value).module + "." + tree_.global(value).name;
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
    case Kind::kBigInt:
      return "an integer";
    case Kind::kFloat:
      return "a float";
    case Kind::kText:
      return "a text";
    case Kind::kBytes:
    case Kind::kByteArray:
      return "bytes";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kDict:
    case Kind::kOrderedDict:
      return "a dict";
    case Kind::kSet:
    case Kind::kFrozenSet:
      return "a set";
    default:
      return "an object";
  }
}

void PickleCalls::check_hashable(Value value) const {
  if (!is_hashable(value.kind)) {
    corrupt(describe(value) + " cannot be the key of a dict or an item of a set");
  }
}

/// The values of a tuple or dict, which stay while the tree grows.
std::vector<Value> PickleCalls::copy_of(Value from) {
  const std::span<const Value> stored = tree_.sequence(from).values();
  tree_.work(stored.size());
  return {stored.begin(), stored.end()};
}

// What a pickle may call is a list of roles, each with a rule of its own that builds values and
// runs nothing; what Python could call beyond them is refused by its name.
Value PickleCalls::reduce(Value callable, Value args) {
  if (callable.kind != Kind::kGlobal) corrupt("the pickle calls " + describe(callable));
  if (args.kind != Kind::kTuple)
    corrupt("the arguments of a call are not a tuple: found " + describe(args));
  const std::vector<Value> items = copy_of(args);
  switch (tree_.global(callable).role) {
    case Role::kTensorV2:
      return torch_.tensor(items, 2);
    case Role::kTensorV3:
      return torch_.tensor(items, 3);
    case Role::kParameter:
      return torch_.parameter(items);
    case Role::kArrayReconstruct:
      return make_empty_array(tree_, items);
    case Role::kArrayFromBuffer:
      return make_array_from_buffer(tree_, items);
    case Role::kArrayScalar:
      return make_array_scalar(tree_, items);
    case Role::kArrayDType:
      return make_array_dtype(tree_, items);
    case Role::kEnumClass:
      return enumerator(callable, items);
    case Role::kTypedStorage:
    case Role::kUntypedStorage:
    case Role::kTorchDType:
    case Role::kArrayClass:
    case Role::kDataClass:
      unsafe("the pickle calls " + describe(callable));
    default:
      return reduce_builtin(tree_.global(callable).role, items);
  }
}

Value PickleCalls::reduce_builtin(Role role, std::span<const Value> args) {
  switch (role) {
    case Role::kOrderedDict:
      return ordered_dict(args);
    case Role::kBytes:
      check_count(args, 0, "bytes");
      return tree_.add_text(Kind::kBytes, {});
    case Role::kByteArray:
      return byte_array(args);
    case Role::kComplex:
      check_count(args, 2, "complex");
      check_kinds(args, {Kind::kFloat}, "complex");
      return tree_.add_sequence(Kind::kComplex, args);
    case Role::kSet:
      return set_of(Kind::kSet, args);
    case Role::kFrozenSet:
      return set_of(Kind::kFrozenSet, args);
    case Role::kSlice:
      check_count(args, 3, "slice");
      check_kinds(args, {Kind::kInt, Kind::kNone}, "slice");
      return tree_.add_sequence(Kind::kSlice, args);
    case Role::kRange:
      check_count(args, 3, "range");
      check_kinds(args, {Kind::kInt}, "range");
      return tree_.add_sequence(Kind::kRange, args);
    case Role::kGetattr:
      return attribute(args);
    case Role::kEncode:
      return encode(args);
    case Role::kTorchSize:
      return size_of(args);
    case Role::kTorchDevice:
      return device(args);
    default:
      unsafe("the pickle makes a call that has no rule");
  }
}

Value PickleCalls::ordered_dict(std::span<const Value> args) {
  const Value made = tree_.add_sequence(Kind::kOrderedDict);
  if (args.empty()) return made;
  check_count(args, 1, "OrderedDict");
  if (args[0].kind != Kind::kList) {
    corrupt("OrderedDict is not made from a list of pairs: found " + describe(args[0]));
  }
  const size_t count = tree_.sequence(args[0]).size();
  tree_.work(count);
  for (size_t i = 0; i < count; ++i) {
    const Value pair = tree_.sequence(args[0])[i];
    const bool is_pair =
        (pair.kind == Kind::kList || pair.kind == Kind::kTuple) && tree_.sequence(pair).size() == 2;
    if (!is_pair) {
      corrupt("OrderedDict is not made from a list of pairs: found " + describe(pair) +
              " among them");
    }
    const Value items[] = {tree_.sequence(pair)[0], tree_.sequence(pair)[1]};
    check_hashable(items[0]);
    tree_.append(made, items, false);
  }
  return made;
}

// Python writes bytes as a text of the characters U+0000 to U+00FF, encoded as latin1, where a
// pickle's protocol has no bytes of its own.
Value PickleCalls::encode(std::span<const Value> args) {
  check_count(args, 2, "_codecs.encode");
  check_kinds(args, {Kind::kText}, "_codecs.encode");
  const std::string_view codec = tree_.text(args[1]);
  if (codec != "latin1" && codec != "latin-1") {
    unsafe("the pickle asks for the codec " + printable(codec) + "; only latin1 is known");
  }
  tree_.work(tree_.text(args[0]).size());
  std::optional<std::string> bytes = utf8_to_latin1(tree_.text(args[0]));
  if (!bytes) corrupt("a text of bytes holds a character above U+00FF");
  return tree_.own_text(Kind::kBytes, std::move(*bytes));
}

Value PickleCalls::byte_array(std::span<const Value> args) {
  if (args.empty()) return tree_.add_text(Kind::kByteArray, {});
  if (args.size() == 1 && args[0].kind == Kind::kBytes) {
    return tree_.add_text(Kind::kByteArray, tree_.text(args[0]));
  }
  const Value bytes = encode(args);
  return tree_.add_text(Kind::kByteArray, tree_.text(bytes));
}

Value PickleCalls::set_of(Kind kind, std::span<const Value> args) {
  const Value made = tree_.add_sequence(kind);
  if (args.empty()) return made;
  check_count(args, 1, "set");
  if (args[0].kind != Kind::kList && args[0].kind != Kind::kTuple) {
    corrupt("a set is not made from a list: found " + describe(args[0]));
  }
  const size_t count = tree_.sequence(args[0]).size();
  tree_.work(count);
  for (size_t i = 0; i < count; ++i) check_hashable(tree_.sequence(args[0])[i]);
  tree_.hold(count * sizeof(Value));
  std::vector<Value> items;
  items.reserve(count);
  for (size_t i = 0; i < count; ++i) items.push_back(tree_.sequence(args[0])[i]);
  tree_.append(made, items, false);
  tree_.give_back(count * sizeof(Value));
  return made;
}

Value PickleCalls::attribute(std::span<const Value> args) {
  check_count(args, 2, "getattr");
  if (args[0].kind != Kind::kGlobal || args[1].kind != Kind::kText) {
    unsafe("the pickle asks for an attribute of " + describe(args[0]));
  }
  return tree_.add_global(find_attribute(tree_.global(args[0]), tree_.text(args[1])));
}

Value PickleCalls::device(std::span<const Value> args) {
  if (args.empty() || args.size() > 2) corrupt("torch.device takes a type and an index");
  check_kinds(args.first(1), {Kind::kText}, "torch.device");
  check_kinds(args.subspan(1), {Kind::kInt}, "torch.device");
  std::string text(tree_.text(args[0]));
  if (args.size() == 2) text.append(":").append(std::to_string(args[1].integer));
  return tree_.own_text(Kind::kTorchDevice, std::move(text));
}

Value PickleCalls::size_of(std::span<const Value> args) {
  check_count(args, 1, "torch.Size");
  if (args[0].kind != Kind::kTuple) {
    corrupt("torch.Size is not made from a tuple: found " + describe(args[0]));
  }
  const std::vector<Value> items = copy_of(args[0]);
  check_kinds(items, {Kind::kInt}, "torch.Size");
  return tree_.add_sequence(Kind::kTorchSize, items);
}

Value PickleCalls::enumerator(Value cls, std::span<const Value> args) {
  check_count(args, 1, "an enumeration");
  check_kinds(args, {Kind::kText, Kind::kInt}, "an enumeration");
  const Value items[] = {cls, args[0]};
  return tree_.add_sequence(Kind::kEnum, items);
}

Value PickleCalls::new_object(Value cls, Value args) {
  if (cls.kind != Kind::kGlobal) corrupt("the pickle makes an object of " + describe(cls));
  if (tree_.global(cls).role != Role::kDataClass) {
    unsafe("the pickle makes an object of " + describe(cls));
  }
  if (args.kind != Kind::kTuple || tree_.sequence(args).size() != 0) {
    corrupt("an object of " + describe(cls) + " is made with arguments");
  }
  return tree_.add_sequence(Kind::kObject, {&cls, 1});
}

void PickleCalls::build(Value target, Value state) {
  switch (target.kind) {
    case Kind::kObject:
      return build_object(target, state);
    case Kind::kOrderedDict:
      // Attributes beside the items (a module's _metadata) are no part of the content.
      if (state.kind != Kind::kDict) {
        corrupt("the attributes of an OrderedDict are not a dict: found " + describe(state));
      }
      return;
    case Kind::kArray:
      return set_array_state(tree_, target, state);
    case Kind::kArrayDType:
      return set_array_dtype_state(tree_, target, state);
    case Kind::kGlobal:
      unsafe("the pickle changes " + describe(target));
    default:
      corrupt("the pickle gives a state to " + describe(target));
  }
}

// An attribute with two underscores in front may change what its class does.
void PickleCalls::build_object(Value target, Value state) {
  if (state.kind == Kind::kNone) return;
  if (state.kind != Kind::kDict) {
    throw Error(ErrorCode::kUnsupported,
                "the state of an object is not a dict: found " + describe(state));
  }
  const std::vector<Value> items = copy_of(state);
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != Kind::kText) {
      corrupt("an attribute's name is not a text: found " + describe(items[i]));
    }
    const std::string_view key = tree_.text(items[i]);
    if (key.starts_with("__")) unsafe("the pickle sets the attribute " + printable(key));
  }
  tree_.append(target, items, false);
}

}  // namespace rlreplay::foreign

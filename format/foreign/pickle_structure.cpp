// The opcodes of PickleMachine that build containers and make calls.
#include <algorithm>
#include <string>

#include "format/foreign/pickle_globals.h"
#include "format/foreign/pickle_machine.h"
#include "format/foreign/pickle_opcodes.h"
#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kScanProgress = size_t{16} << 20;

/// Steps that whoever reads a list of samples takes for each. A pickle may name one dict a million
/// times, in two bytes each.
uint64_t reading_steps(std::span<const Value> items) {
  constexpr uint64_t kEach = 1000;
  const auto is_dict = [](const Value& item) { return item.kind == Kind::kDict; };
  return kEach * static_cast<uint64_t>(std::count_if(items.begin(), items.end(), is_dict));
}

}  // namespace

void PickleMachine::collect(Kind kind, size_t begin) {
  const Value made = tree_.add_sequence(kind);
  const std::span<const Value> items(stack_.data() + begin, stack_.size() - begin);
  if (kind == Kind::kDict) {
    if (items.size() % 2 != 0) corrupt("a dict is made from an odd number of values");
    for (size_t i = 0; i < items.size(); i += 2) calls_.check_hashable(items[i]);
  }
  if (kind == Kind::kFrozenSet) {
    for (const Value item : items) calls_.check_hashable(item);
  }
  if (kind == Kind::kList || kind == Kind::kTuple) tree_.work(reading_steps(items));
  tree_.append(made, items, kind == Kind::kList);
  stack_.resize(begin);
  push(made);
}

void PickleMachine::append(size_t begin) {
  if (begin == floor()) corrupt("there is no list to append to");
  const Value list = stack_[begin - 1];
  if (list.kind != Kind::kList) corrupt("the pickle appends to " + calls_.describe(list));
  if (list.index != filled_.index) tree_.fit(filled_);
  filled_ = list;
  const std::span<const Value> items(stack_.data() + begin, stack_.size() - begin);
  tree_.work(reading_steps(items));
  tree_.append(list, items, true);
  stack_.resize(begin);
  report_progress();
}

void PickleMachine::set_items(size_t begin) {
  if (begin == floor()) corrupt("there is no dict to set items of");
  const Value dict = stack_[begin - 1];
  if (dict.kind != Kind::kDict && dict.kind != Kind::kOrderedDict) {
    corrupt("the pickle sets items of " + calls_.describe(dict));
  }
  const std::span<const Value> items(stack_.data() + begin, stack_.size() - begin);
  if (items.size() % 2 != 0) corrupt("an odd number of keys and values");
  for (size_t i = 0; i < items.size(); i += 2) calls_.check_hashable(items[i]);
  tree_.append(dict, items, false);
  stack_.resize(begin);
}

void PickleMachine::add_items(size_t begin) {
  if (begin == floor()) corrupt("there is no set to add items to");
  const Value set = stack_[begin - 1];
  if (set.kind != Kind::kSet) corrupt("the pickle adds items to " + calls_.describe(set));
  const std::span<const Value> items(stack_.data() + begin, stack_.size() - begin);
  for (const Value item : items) calls_.check_hashable(item);
  tree_.append(set, items, false);
  stack_.resize(begin);
}

void PickleMachine::pop_one() {
  if (!marks_.empty() && stack_.size() == marks_.back()) {
    marks_.pop_back();
  } else {
    pop();
  }
}

/// Containers are made of what lies above the innermost mark, or of the last few values above it:
/// none reaches below.
bool PickleMachine::run_container(uint8_t op) {
  const auto last = [&](size_t count) {
    if (stack_.size() - floor() < count) corrupt("the stack holds too few values");
    return stack_.size() - count;
  };
  switch (op) {
    case kMark:
      if (marks_.size() == marks_.capacity()) grow(marks_);
      marks_.push_back(stack_.size());
      return true;
    case kAppends:
      append(pop_mark());
      return true;
    case kAppend:
      append(last(1));
      return true;
    case kSetItems:
      set_items(pop_mark());
      return true;
    case kSetItem:
      set_items(last(2));
      return true;
    case kAddItems:
      add_items(pop_mark());
      return true;
    case kEmptyList:
    case kEmptyDict:
    case kEmptyTuple:
    case kEmptySet:
      push(tree_.add_sequence(op == kEmptyList    ? Kind::kList
                              : op == kEmptyDict  ? Kind::kDict
                              : op == kEmptyTuple ? Kind::kTuple
                                                  : Kind::kSet));
      return true;
    case kTuple1:
    case kTuple2:
    case kTuple3:
      collect(Kind::kTuple, last(op == kTuple1 ? 1 : op == kTuple2 ? 2 : 3));
      return true;
    case kTuple:
    case kList:
    case kDict:
    case kFrozenSet:
      collect(op == kTuple  ? Kind::kTuple
              : op == kList ? Kind::kList
              : op == kDict ? Kind::kDict
                            : Kind::kFrozenSet,
              pop_mark());
      return true;
    case kPop:
      pop_one();
      return true;
    case kPopMark:
      stack_.resize(pop_mark());
      return true;
    case kDup:
      push(Value(top()));
      return true;
    default:
      return false;
  }
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  push(tree_.add_global(find_global(module, name)));
}

void PickleMachine::protocol() {
  const auto version = take(1, "the protocol")[0];
  if (version > 5) {
    throw Error(ErrorCode::kUnsupported,
                "pickle protocol " + std::to_string(version) + "; 0 to 5 are supported");
  }
}

void PickleMachine::frame() {
  const auto size = load_as<uint64_t>(take(8, "a frame").data());
  if (size > pickle_.size() - at_) corrupt("a frame is longer than the pickle");
}

/// The protocol, and what would import, call or construct in Python. A name that find_global does
/// not know is refused before anything is made with it; of the rest `calls_` makes data. Operands
/// lie on the stack in the order of Python's arguments, so the last one is taken first.
bool PickleMachine::run_call(uint8_t op) {
  switch (op) {
    case kProto:
      protocol();
      return true;
    case kFrame:
      frame();
      return true;
    case kGlobal: {
      const std::string_view module = take_line("a module's name");
      push_global(module, take_line("a global's name"));
      return true;
    }
    case kStackGlobal: {
      const Value name = pop();
      const Value module = pop();
      if (name.kind != Kind::kText || module.kind != Kind::kText) {
        corrupt("a global's name is not a text");
      }
      push_global(tree_.text(module), tree_.text(name));
      return true;
    }
    case kReduce: {
      const Value args = pop();
      const Value callable = pop();
      push(calls_.reduce(callable, args));
      return true;
    }
    case kNewObj: {
      const Value args = pop();
      const Value cls = pop();
      push(calls_.new_object(cls, args));
      return true;
    }
    case kNewObjEx: {
      const Value keywords = pop();
      const Value args = pop();
      const Value cls = pop();
      if (keywords.kind != Kind::kDict || tree_.sequence(keywords).size() != 0) {
        throw Error(ErrorCode::kUnsafe, "the pickle makes an object with keyword arguments");
      }
      push(calls_.new_object(cls, args));
      return true;
    }
    case kBuild: {
      const Value state = pop();
      calls_.build(top(), state);
      return true;
    }
    case kBinPersId:
      push(calls_.persistent(pop()));
      return true;
    default:
      return run_refused(op);
  }
}

bool PickleMachine::run_refused(uint8_t op) {
  switch (op) {
    case kInst: {
      const std::string_view module = take_line("a module's name");
      static_cast<void>(find_global(module, take_line("a global's name")));  // refuses some
      throw Error(ErrorCode::kUnsupported, "an object of an old-style class");
    }
    case kObj:
      throw Error(ErrorCode::kUnsupported, "an object of an old-style class");
    case kExt1:
    case kExt2:
    case kExt4:
      throw Error(ErrorCode::kUnsafe, "the pickle asks for a global of the extension registry");
    case kPersId:
      corrupt("a persistent id in text form, which torch never writes");
    case kNextBuffer:
    case kReadonlyBuffer:
      throw Error(ErrorCode::kUnsupported, "the pickle refers to a buffer outside the file");
    default:
      return false;
  }
}

void PickleMachine::report_progress() {
  if (!progress_ || at_ - reported_ < kScanProgress) return;
  progress_(pickle_.subspan(reported_, at_ - reported_));
  reported_ = at_;
}

}  // namespace rlreplay::foreign

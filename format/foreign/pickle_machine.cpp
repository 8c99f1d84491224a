#include "format/foreign/pickle_machine.h"

#include <algorithm>
#include <bit>
#include <string>

#include "format/foreign/pickle_globals.h"
#include "format/foreign/pickle_numbers.h"
#include "format/foreign/pickle_opcodes.h"
#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

constexpr uint64_t kFarEntry = 64;  // bytes, of a map's node

}  // namespace

PickleMachine::PickleMachine(Bytes pickle, Tree& tree, const RecordSource& records,
                             Progress progress)
    : pickle_(pickle), tree_(tree), calls_(tree, records), progress_(std::move(progress)) {}

void PickleMachine::hold(uint64_t bytes) {
  tree_.hold(bytes);
  held_ += bytes;
}

/// Memory is counted before it is taken: a few bytes of pickle may ask for much.
template <class T>
void PickleMachine::grow(std::vector<T>& values) {
  const size_t more = std::max<size_t>(values.capacity() / 2, 64);
  hold(more * sizeof(T));
  values.reserve(values.capacity() + more);
}
template void PickleMachine::grow(std::vector<Value>&);
template void PickleMachine::grow(std::vector<size_t>&);

Value PickleMachine::run() {
  size_t begin = 0;
  try {
    while (true) {
      run_short_numbers();
      begin = at_;
      const uint8_t op = take(1, "the pickle (it has no STOP)")[0];
      if (run_number(op) || run_text(op) || run_container(op) || run_memo(op)) continue;
      if (op == kStop) return finish();
      if (!run_call(op)) corrupt("unknown opcode 0x" + to_hex({&op, 1}));
    }
  } catch (const Error& error) {
    const std::string opcode = begin < pickle_.size() ? opcode_name(pickle_[begin]) : "";
    throw error.at("byte " + std::to_string(begin) + (opcode.empty() ? "" : " (" + opcode + ")"));
  }
}

/// Lists of tokens and log-probabilities are nearly all of a rollout: their opcodes are taken one
/// after the other, up to the first other one or to where one might not be whole.
void PickleMachine::run_short_numbers() {
  constexpr size_t kLongest = 9;  // bytes, of BINFLOAT
  const uint8_t* p = pickle_.data() + at_;
  const uint8_t* const end = pickle_.data() + pickle_.size();
  while (static_cast<size_t>(end - p) >= kLongest) {
    switch (*p) {
      case kBinInt1:
        push(Value::of_int(p[1]));
        p += 2;
        continue;
      case kBinInt2:
        push(Value::of_int(load_as<uint16_t>(p + 1)));
        p += 3;
        continue;
      case kBinInt:
        push(Value::of_int(load_as<int32_t>(p + 1)));
        p += 5;
        continue;
      case kBinFloat:
        push(Value::of_float(std::bit_cast<double>(__builtin_bswap64(load_as<uint64_t>(p + 1)))));
        p += 9;
        continue;
      default:
        break;
    }
    break;
  }
  at_ = static_cast<size_t>(p - pickle_.data());
}

Value PickleMachine::finish() {
  if (!marks_.empty()) corrupt("the pickle ends with open marks");
  if (stack_.empty()) corrupt("the pickle ends without an object");
  if (stack_.size() > 1) corrupt("the pickle ends with several objects");
  return stack_.back();
}

Bytes PickleMachine::take(uint64_t size, const char* what) {
  if (size > pickle_.size() - at_) {
    corrupt(std::string(what) + " reaches past the end: " + std::to_string(size) +
            " bytes wanted, " + std::to_string(pickle_.size() - at_) + " left");
  }
  const Bytes taken = pickle_.subspan(at_, size);
  at_ += size;
  return taken;
}

template <class T>
T PickleMachine::take_number(const char* what) {
  return load_as<T>(take(sizeof(T), what).data());
}

std::string_view PickleMachine::take_line(const char* what) {
  const std::string_view rest = as_text(pickle_.subspan(at_));
  const size_t end = rest.find('\n');
  if (end == rest.npos) corrupt(std::string(what) + " has no end of line");
  at_ += end + 1;
  return rest.substr(0, end);
}

bool PickleMachine::run_number(uint8_t op) {
  switch (op) {
    case kBinInt1:
      push(Value::of_int(take_number<uint8_t>("an integer")));
      return true;
    case kBinInt2:
      push(Value::of_int(take_number<uint16_t>("an integer")));
      return true;
    case kBinInt:
      push(Value::of_int(take_number<int32_t>("an integer")));
      return true;
    case kBinFloat: {
      // Of all numbers of a pickle this one alone is big-endian.
      const auto bits = __builtin_bswap64(take_number<uint64_t>("a float"));
      push(Value::of_float(std::bit_cast<double>(bits)));
      return true;
    }
    case kNone:
      push({});
      return true;
    case kNewTrue:
    case kNewFalse:
      push(Value::of_bool(op == kNewTrue));
      return true;
    case kLong1:
      push(integer_from_bytes(tree_, take(take_number<uint8_t>("an integer"), "an integer")));
      return true;
    case kLong4: {
      const auto size = take_number<int32_t>("an integer");
      if (size < 0) corrupt("an integer of negative length");
      push(integer_from_bytes(tree_, take(static_cast<uint64_t>(size), "an integer")));
      return true;
    }
    case kInt: {
      const std::string_view line = take_line("an integer");
      // Protocol 0 has no opcodes for truth values: it writes them as integers with a leading zero.
      const bool boolean = line == "00" || line == "01";
      push(boolean ? Value::of_bool(line == "01") : integer_from_text(tree_, line));
      return true;
    }
    case kLong: {
      std::string_view line = take_line("an integer");
      if (line.ends_with('L')) line.remove_suffix(1);
      push(integer_from_text(tree_, line));
      return true;
    }
    case kFloat:
      push(float_from_text(take_line("a float")));
      return true;
    default:
      return false;
  }
}

/// Python pickles texts with `surrogatepass`.
void PickleMachine::push_text(Kind kind, Bytes bytes) {
  if (kind == Kind::kText && !is_utf8(as_text(bytes), Surrogates::kAllowed)) {
    corrupt("a text is not UTF-8");
  }
  push(tree_.add_text(kind, as_text(bytes)));
}

void PickleMachine::push_raw_text(Bytes bytes) {
  if (!is_utf8(as_text(bytes), Surrogates::kRefused)) corrupt("a text is not UTF-8");
  push(tree_.add_text(Kind::kText, as_text(bytes)));
}

/// Texts of Python 3 may hold surrogates; strings of Python 2 are bytes, and texts where they are
/// UTF-8. A text of protocol 0 is decoded into memory of its own, by its line and not by a length.
bool PickleMachine::run_text(uint8_t op) {
  const auto sized = [&](auto size) { return take(static_cast<uint64_t>(size), "a text"); };
  switch (op) {
    case kBinUnicode:
      push_text(Kind::kText, sized(take_number<uint32_t>("a text")));
      return true;
    case kShortBinUnicode:
      push_text(Kind::kText, sized(take_number<uint8_t>("a text")));
      return true;
    case kBinUnicode8:
      push_text(Kind::kText, sized(take_number<uint64_t>("a text")));
      return true;
    case kShortBinBytes:
      push_text(Kind::kBytes, sized(take_number<uint8_t>("bytes")));
      return true;
    case kBinBytes:
      push_text(Kind::kBytes, sized(take_number<uint32_t>("bytes")));
      return true;
    case kBinBytes8:
      push_text(Kind::kBytes, sized(take_number<uint64_t>("bytes")));
      return true;
    case kByteArray8:
      push_text(Kind::kByteArray, sized(take_number<uint64_t>("bytes")));
      return true;
    case kShortBinString:
      push_raw_text(sized(take_number<uint8_t>("a text")));
      return true;
    case kBinString: {
      const auto size = take_number<int32_t>("a text");
      if (size < 0) corrupt("a text of negative length");
      push_raw_text(sized(size));
      return true;
    }
    case kUnicode: {
      auto text = decode_raw_unicode_escape(take_line("a text"));
      if (!text) corrupt("a text has a broken escape");
      tree_.work(text->size());
      push(tree_.own_text(Kind::kText, std::move(*text)));
      return true;
    }
    case kString: {
      auto text = decode_quoted(take_line("a text"));
      if (!text || !is_utf8(*text, Surrogates::kRefused)) corrupt("a quoted text is broken");
      push(tree_.own_text(Kind::kText, std::move(*text)));
      return true;
    }
    default:
      return false;
  }
}

Value PickleMachine::pop() {
  const Value value = top();
  stack_.pop_back();
  return value;
}

/// The value on top of the stack, above the innermost mark: a pickle that reaches below it is none
/// that Python wrote.
Value& PickleMachine::top() {
  if (stack_.size() <= floor()) corrupt("the stack is empty");
  return stack_.back();
}

size_t PickleMachine::pop_mark() {
  if (marks_.empty()) corrupt("there is no mark");
  const size_t begin = marks_.back();
  marks_.pop_back();
  return begin;
}

/// Entries that picklers number, one after the other, lie in a vector; a far number, which a
/// hostile pickle may choose, costs a node and not the vector up to it.
void PickleMachine::put(uint64_t index) {
  const Value value = top();
  if (index < memo_.size()) {
    memo_[index] = value;
  } else if (index == memo_.size()) {
    if (memo_.size() == memo_.capacity()) grow(memo_);
    memo_.push_back(value);
    ++memo_count_;
  } else {
    hold(kFarEntry);
    memo_count_ += far_memo_.insert_or_assign(index, value).second ? 1 : 0;
  }
}

void PickleMachine::get(uint64_t index) {
  if (index < memo_.size()) return push(memo_[index]);
  const auto found = far_memo_.find(index);
  if (found == far_memo_.end()) corrupt("memo entry " + std::to_string(index) + " was never put");
  push(found->second);
}

bool PickleMachine::run_memo(uint8_t op) {
  const auto line_index = [&] {
    Tree scratch;
    const Value index = integer_from_text(scratch, take_line("a memo entry"));
    if (index.kind != Kind::kInt || index.integer < 0) corrupt("a memo entry has no valid number");
    return static_cast<uint64_t>(index.integer);
  };
  switch (op) {
    case kBinPut:
      put(take_number<uint8_t>("a memo entry"));
      return true;
    case kLongBinPut:
      put(take_number<uint32_t>("a memo entry"));
      return true;
    case kMemoize:
      // The number is not said: Python takes the size of its memo, entries far away included.
      put(memo_count_);
      return true;
    case kBinGet:
      get(take_number<uint8_t>("a memo entry"));
      return true;
    case kLongBinGet:
      get(take_number<uint32_t>("a memo entry"));
      return true;
    case kPut:
      put(line_index());
      return true;
    case kGet:
      get(line_index());
      return true;
    default:
      return false;
  }
}

}  // namespace rlreplay::foreign

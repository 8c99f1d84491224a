#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/foreign/pickle_calls.h"
#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// Reads one pickle of protocol 0 to 5 as data. Nothing is imported and nothing is run: a name
/// outside the list of known data, a call without a rule and an unknown opcode end the reading.
/// Time and memory are drawn on the tree's budget.
class PickleMachine {
 public:
  /// Called now and then with the part of the pickle that lies behind.
  using Progress = std::function<void(Bytes)>;

  PickleMachine(Bytes pickle, Tree& tree, const RecordSource& records, Progress progress = {});

  ~PickleMachine() { tree_.give_back(held_); }
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;

  /// The object of the pickle. Errors: kLimit, kCorrupt, kUnsupported, kUnsafe, each with the byte.
  Value run();

  /// The first byte behind the pickle, once it was run.
  size_t end() const { return at_; }

 private:
  void run_short_numbers();
  [[nodiscard]] bool run_number(uint8_t op);
  [[nodiscard]] bool run_text(uint8_t op);
  [[nodiscard]] bool run_container(uint8_t op);
  [[nodiscard]] bool run_memo(uint8_t op);
  [[nodiscard]] bool run_call(uint8_t op);
  [[nodiscard]] bool run_refused(uint8_t op);
  Value finish();

  Bytes take(uint64_t size, const char* what);
  template <class T>
  [[nodiscard]] T take_number(const char* what);
  [[nodiscard]] std::string_view take_line(const char* what);

  void push(Value value) {
    if (stack_.size() == stack_.capacity()) grow(stack_);
    stack_.push_back(value);
  }
  template <class T>
  void grow(std::vector<T>& values);
  void hold(uint64_t bytes);
  void push_text(Kind kind, Bytes bytes);
  void push_raw_text(Bytes bytes);
  Value pop();
  Value& top();
  size_t pop_mark();
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void collect(Kind kind, size_t begin);
  void append(size_t begin);
  void set_items(size_t begin);
  void add_items(size_t begin);
  void put(uint64_t index);
  void get(uint64_t index);
  void push_global(std::string_view module, std::string_view name);
  void pop_one();
  void protocol();
  void frame();
  void report_progress();

  Bytes pickle_;
  Tree& tree_;
  PickleCalls calls_;
  Progress progress_;
  size_t at_ = 0;
  size_t reported_ = 0;
  Value filled_ = Value::node(Kind::kList, 0);  // the list that was appended to last
  std::vector<Value> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<Value> memo_;
  std::unordered_map<uint64_t, Value> far_memo_;  // entries that were not put in order
  size_t memo_count_ = 0;
  uint64_t held_ = 0;  // of the budget, while this lives
};

}  // namespace rlreplay::foreign

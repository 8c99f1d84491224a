#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rlreplay {

/// The first of what a check finds, and how many more there were. A `Problem` has a `code`, a
/// `message` and perhaps a `unit` of a dump.
template <class Problem>
class FirstProblems {
 public:
  explicit FirstProblems(size_t most = 100) : most_(most) {}

  void add(Problem problem) {
    if (full()) return leave_out(1);
    listed_.push_back(std::move(problem));
  }
  void leave_out(size_t count) { unlisted_ += count; }
  [[nodiscard]] bool full() const { return listed_.size() == most_; }
  [[nodiscard]] bool empty() const { return listed_.empty(); }

  /// The first problems, and at the end, where there are more, one of code more-problems that
  /// counts the others.
  [[nodiscard]] std::vector<Problem> take() && {
    if (unlisted_ > 0) {
      Problem others;
      if constexpr (requires { others.unit; }) others.unit = listed_.back().unit;
      others.code = "more-problems";
      others.message = std::to_string(unlisted_) + " more problems are not listed";
      listed_.push_back(std::move(others));
    }
    return std::move(listed_);
  }

 private:
  size_t most_, unlisted_ = 0;
  std::vector<Problem> listed_;
};

}  // namespace rlreplay

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rlreplay::replay {

/// Something recorded that contradicts something else that was recorded.
struct RecordProblem {
  std::string code, unit, dataset, message;
  std::optional<uint64_t> sample = {};
};

/// The first of them, and how many more there were.
class RecordProblems {
 public:
  void add(RecordProblem problem) {
    if (listed_.size() < kMost) {
      listed_.push_back(std::move(problem));
    } else {
      ++unlisted_;
    }
  }
  bool empty() const { return listed_.empty(); }
  /// With "more-problems" at the end where there were more.
  std::vector<RecordProblem> take() && {
    if (unlisted_ > 0) {
      listed_.push_back({"more-problems", listed_.back().unit, "",
                         std::to_string(unlisted_) + " more problems are not listed"});
    }
    return std::move(listed_);
  }

 private:
  static constexpr size_t kMost = 100;
  std::vector<RecordProblem> listed_;
  size_t unlisted_ = 0;
};

/// What a check of a record found, and a sentence for each thing that it could not check.
struct RecordFindings {
  std::vector<RecordProblem> problems;
  std::vector<std::string> not_checked;
};

}  // namespace rlreplay::replay

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/error.h"
#include "src/replay/record/record_problem.h"

namespace rlreplay::replay {

/// Why a rollout cannot be read, with the code that a checker gives it.
class RecordRefusal : public Error {
 public:
  RecordRefusal(const char* code, std::optional<uint64_t> sample, ErrorCode error,
                const std::string& message, const std::string& where)
      : Error(error, message, where), problem_(code), sample_(sample) {}
  const char* problem() const { return problem_; }
  [[nodiscard]] std::optional<uint64_t> sample() const { return sample_; }

 private:
  const char* problem_;
  std::optional<uint64_t> sample_;
};

/// Adds refusals to `problems` and leaves out what is refused; without `problems` they are thrown.
class RefusalGuard {
 public:
  explicit RefusalGuard(RecordProblems* problems) : problems_(problems) {}

  /// Does what reads something that `unit` holds; the refusal names the unit.
  template <class Work>
  void run(const std::string& unit, Work work) const {
    if (problems_ == nullptr) return work();
    try {
      work();
    } catch (const RecordRefusal& refusal) {
      problems_->add({refusal.problem(), unit, "", refusal.what(), refusal.sample()});
    }
  }

 private:
  RecordProblems* problems_;
};

}  // namespace rlreplay::replay

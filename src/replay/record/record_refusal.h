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

/// With `problems` refusals are added there, and what is refused is left out; without, they are
/// thrown.
class RefusalGuard {
 public:
  explicit RefusalGuard(RecordProblems* problems) : problems_(problems) {}

  /// Of something that `unit` holds.
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

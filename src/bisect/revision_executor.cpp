#include "src/bisect/revision_executor.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace rlreplay::bisect {
namespace {

using measure::Build;
using measure::Candidate;
using measure::Measurement;

/// Hands candidates to threads and their measurements to the one thread that waits for them.
class Handover {
 public:
  explicit Handover(size_t count) : count_(count) {}

  /// The next candidate for a thread; `count` where there is none.
  size_t take() {
    const std::lock_guard lock(mutex_);
    return failure_ || next_ == count_ ? count_ : next_++;
  }

  void give(size_t candidate, Measurement measurement) {
    const std::lock_guard lock(mutex_);
    ended_.emplace_back(candidate, std::move(measurement));
    changed_.notify_one();
  }

  /// No candidate is begun any more.
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    changed_.notify_one();
  }

  void end_thread() {
    const std::lock_guard lock(mutex_);
    ++threads_ended_;
    changed_.notify_one();
  }

  /// Until all threads have ended. Errors: what a thread has failed with.
  void receive(size_t threads, const measure::Executor::Measured& measured) {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [&] { return !ended_.empty() || threads_ended_ == threads; });
      if (ended_.empty()) break;
      auto [candidate, measurement] = std::move(ended_.front());
      ended_.pop_front();
      lock.unlock();
      measured(candidate, std::move(measurement));
      lock.lock();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t count_, next_ = 0, threads_ended_ = 0;
  std::deque<std::pair<size_t, Measurement>> ended_;
  std::exception_ptr failure_;
};

}  // namespace

RevisionExecutor::RevisionExecutor(const Repository& repository, const Recipe& recipe,
                                   Workspace& workspace, const Interrupt& interrupt,
                                   std::function<std::string()> reference_of, size_t slots)
    : ground_{repository, recipe, workspace, interrupt}, reference_of_(std::move(reference_of)) {
  for (size_t i = 0; i < std::max<size_t>(slots, 1); ++i) slots_.emplace_back(ground_, i);
}

Measurement RevisionExecutor::measure(const Candidate& candidate, Build build) {
  return slots_.front().measure(candidate, build, reference_of_());
}

void RevisionExecutor::measure_all(std::span<const Candidate> candidates,
                                   const Measured& measured) {
  const std::string reference = reference_of_();
  Handover handover(candidates.size());
  const auto work = [&](RevisionSlot& slot) {
    try {
      for (size_t i = handover.take(); i < candidates.size(); i = handover.take()) {
        handover.give(i, slot.measure(candidates[i], Build::kAny, reference));
      }
    } catch (...) {
      handover.fail(std::current_exception());
    }
    handover.end_thread();
  };
  std::vector<std::jthread> threads;  // which end before what they use does
  for (RevisionSlot& slot : slots_) {
    if (threads.size() == candidates.size()) break;
    threads.emplace_back(work, std::ref(slot));
  }
  try {
    handover.receive(threads.size(), measured);
  } catch (...) {
    handover.fail(std::current_exception());
    throw;
  }
}

}  // namespace rlreplay::bisect

#pragma once

#include <cstdint>

namespace rlreplay {

/// What reading one file of somebody else's may cost. All that reads it draws on one budget, before
/// memory is taken and before work is done: a file can be a bomb in no way that is not counted.
class Budget {
 public:
  /// Held at once: 64 MiB and eight times the input. Work: two seconds for each MiB of it that is
  /// begun, counted in steps and not by a clock.
  explicit Budget(uint64_t input_bytes);
  /// What may be held at once of an input of so many bytes.
  static uint64_t bytes_for(uint64_t input_bytes);

  /// Counts bytes before they are held. Errors: kLimit.
  void hold(uint64_t bytes) {
    if (bytes > left_) refuse_bytes();
    left_ -= bytes;
  }
  void give_back(uint64_t bytes) { left_ += bytes; }

  /// Counts steps before they are taken: bytes copied, values looked at, limbs multiplied.
  /// Errors: kLimit.
  void work(uint64_t steps) {
    if (steps > steps_left_) refuse_work();
    steps_left_ -= steps;
  }

 private:
  [[noreturn]] void refuse_bytes() const;
  [[noreturn]] void refuse_work() const;

  uint64_t input_bytes_;
  uint64_t left_;
  uint64_t steps_left_;
};

}  // namespace rlreplay

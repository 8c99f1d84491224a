#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace rlreplay {

/// What went wrong, by kind. The values are pinned: they are printed in JSON.
enum class ErrorCode : int {
  kUsage = 10,        // the caller asked for something that makes no sense
  kCorrupt = 20,      // input that breaks its own rules
  kIncomplete = 21,   // input that ends too early or lacks a part
  kUnsafe = 22,       // input that asks for code to be run
  kUnsupported = 30,  // outside what this version supports
  kLimit = 31,        // more than the caller allowed to be taken
  kEnvironment = 40,  // memory, disk, device, permission
  kInterrupted = 45,  // the user's signal
  kInternal = 50,     // a broken invariant of this program
};

std::string_view to_string(ErrorCode code);

/// The exit code of the programs for an error of this kind.
int exit_code(ErrorCode code);

/// The one exception type: a kind, a sentence, and where (a path, dataset, byte or event).
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string where = {})
      : std::runtime_error(message), code_(code), where_(std::move(where)) {}

  ErrorCode code() const { return code_; }
  const std::string& where() const { return where_; }

 private:
  ErrorCode code_;
  std::string where_;
};

/// Throws kInternal unless `condition` holds. Stays in release builds.
inline void check(bool condition, const char* message) {
  if (!condition) throw Error(ErrorCode::kInternal, message);
}

/// Runs `work`; an error of its says that it happened in `place`: "step 3.0".
template <class Work>
auto with_place(const std::string& place, const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), e.where().empty() ? place : place + ", " + e.where());
  }
}

/// The same of a step. Rollout and step as a StepId names them.
template <class Work>
auto with_step(int64_t rollout, int64_t step, const Work& work) {
  return with_place("step " + std::to_string(rollout) + "." + std::to_string(step), work);
}

template <class Work>
auto with_rollout(int64_t rollout, const Work& work) {
  return with_place("rollout " + std::to_string(rollout), work);
}

}  // namespace rlreplay

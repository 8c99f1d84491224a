#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace rlreplay {

/// What went wrong, by kind. The names are pinned (to_string): they are printed in JSON.
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

[[nodiscard]] std::string_view to_string(ErrorCode code);

/// The exit code of the programs for an error of this kind.
[[nodiscard]] int exit_code(ErrorCode code);

/// How a file breaks a rule of its format: the rule's pinned name, and where in the file.
struct Breach {
  std::string rule;
  std::string dataset;                  // empty where none is concerned
  std::optional<uint64_t> offset = {};  // the byte at which what breaks the rule begins
};

/// What is thrown: a kind, a sentence, and where (a path, dataset, byte or event).
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string where = {},
        std::optional<Breach> breach = {})
      : std::runtime_error(message),
        code_(code),
        where_(std::move(where)),
        breach_(std::move(breach)) {}

  ErrorCode code() const { return code_; }
  const std::string& where() const { return where_; }
  const std::optional<Breach>& breach() const { return breach_; }

  /// This error, told of another place.
  [[nodiscard]] Error at(std::string where) const {
    return {code_, what(), std::move(where), breach_};
  }

 private:
  ErrorCode code_;
  std::string where_;
  std::optional<Breach> breach_;
};

/// Throws kInternal unless `condition` holds. Stays in release builds.
inline void check(bool condition, const char* message) {
  if (!condition) throw Error(ErrorCode::kInternal, message);
}

}  // namespace rlreplay

#pragma once

#include <string>

namespace rlreplay::bisect {

/// `rlbisect GOOD..BAD` and `rlbisect verdict`: each reads its command line, prints its result and
/// returns the exit code: of what was found 0, 1 or 125; for a wrong command line kUsageExit.
[[nodiscard]] int run_search(int argc, char** argv);

/// The former, which goes on: between the commits at which it began, whatever its ends name by now.
[[nodiscard]] int run_search_between(int argc, char** argv, const std::string& good,
                                     const std::string& bad);
[[nodiscard]] int run_verdict(int argc, char** argv);

/// `rlbisect op EVENT --from DUMP`: 0 where something differs from the record, else 1.
[[nodiscard]] int run_op(int argc, char** argv);

/// `rlbisect status|log|resume|gc`, likewise.
[[nodiscard]] int run_stored(int argc, char** argv);

/// `rlbisect guard PROGRAM...`, by which a search runs its commands (guardian.h).
[[nodiscard]] int run_guard(int argc, char** argv);
inline constexpr const char* kGuardVerb = "guard";

/// The words of `run_stored`.
inline constexpr const char* kStoredVerbs[] = {"status", "log", "resume", "gc"};

inline constexpr int kGoodExit = 0;
inline constexpr int kBadExit = 1;
inline constexpr int kCannotJudgeExit = 125;

/// Where git reads the exit code, everything below 128 is a verdict.
inline constexpr int kErrorExit = 128;
inline constexpr int kUsageExit = 129;

}  // namespace rlreplay::bisect

#pragma once

#include <functional>
#include <string_view>

#include "src/base/error.h"

namespace rlreplay {

/// Runs a program's work and returns its exit code; an exception that nobody caught becomes one
/// sentence on standard error (and, with `json`, an object on standard output) and the exit code of
/// its kind. What was printed on standard output and could not be written is such an error, unless
/// its reader went away; so are standard input that could not be read to its end and a file that
/// may not grow (RLIMIT_FSIZE).
[[nodiscard]] int run_reporting_errors(std::string_view program, bool json,
                                       const std::function<int()>& work);

/// Prints an error as above and returns its exit code.
[[nodiscard]] int report_error(std::string_view program, bool json, const Error& error);

}  // namespace rlreplay

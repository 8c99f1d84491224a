#pragma once

#include <functional>
#include <string_view>

namespace rlreplay {

/// Runs a program's work and returns its exit code; an exception that nobody caught becomes one
/// sentence on standard error (and, with `json`, an object on standard output) and the exit code of
/// its kind.
int run_reporting_errors(std::string_view program, bool json, const std::function<int()>& work);

}  // namespace rlreplay

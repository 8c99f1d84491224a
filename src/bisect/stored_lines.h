#pragma once

#include <functional>
#include <string>

#include "src/base/json_value.h"

namespace rlreplay::bisect {

/// Gives the lines of a file, objects, one after the other, so that one is held at a time: what a
/// kill has cut of a line is not given, and of a file that is not there nothing. `what` the lines
/// are and `advice`, what to do, are for the error where one does not say what it should.
/// Errors: kEnvironment for a file that cannot be read to its end; kCorrupt where `take` throws it.
void each_line(const std::string& path, const std::string& what, const std::string& advice,
               const std::function<void(const JsonValue&)>& take);

}  // namespace rlreplay::bisect

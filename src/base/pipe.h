#pragma once

#include "src/base/descriptor.h"

namespace rlreplay {

/// The two ends of a pipe, neither of which a program that is started inherits.
struct Pipe {
  Descriptor read, write;
};

/// Errors: kEnvironment.
[[nodiscard]] Pipe make_pipe();

}  // namespace rlreplay

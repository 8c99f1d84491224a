#pragma once

#include <string>

namespace rlreplay::replay {

/// One operation of a dump's step, by two kernel sets.
struct OperationQuestion {
  std::string event, dump;
  std::string kernels;  // empty: the fastest of this processor
  std::string against = "reference";
  bool json = false;
};

/// Prints it; whether all agree with the record. Errors: those of replay_operation and
/// kernels_named; kUnsupported in a build without the engine.
[[nodiscard]] bool print_operation(const OperationQuestion& question);

}  // namespace rlreplay::replay

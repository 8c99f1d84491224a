#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "src/base/descriptor.h"

namespace rlreplay::engine {

/// How the ranks of a run find each other.
struct RankMeeting {
  int rank = 0;
  int size = 1;
  /// Where rank 0 listens: at the first that is free. The others try them in turn.
  std::vector<std::string> addresses;
  std::string token;    // what ranks of another run do not know
  std::string program;  // what all ranks must be alike: the program's version
  std::chrono::milliseconds patience{300'000};
  /// Why no more ranks will come; empty: they may. Asked by rank 0 while it waits; may be empty.
  std::function<std::string()> lost;
  /// The number of a host by its name; empty: the system's look_up_host.
  std::function<std::string(const std::string& host)> look_up;
};

/// Connects every rank to every other. Returns the sockets, by rank, with nothing at the own place.
/// Errors: kEnvironment where ranks do not come in time, or no address is free; kUsage where two
/// have one rank, or the number of ranks or the program differ.
[[nodiscard]] std::vector<Descriptor> meet(const RankMeeting& meeting);

}  // namespace rlreplay::engine

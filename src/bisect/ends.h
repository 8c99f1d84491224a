#pragma once

#include <span>
#include <string>

namespace rlreplay::bisect {

/// What lies between the two ends of a search.
enum class Axis { kRevisions, kDumps, kConfigurations };

struct Ends {
  Axis axis = Axis::kRevisions;
  std::string good, bad;
};

/// Reads `GOOD..BAD` or `GOOD BAD`: two folders are dumps, two texts with `=` configurations,
/// anything else revisions. An end that is left out is HEAD.
/// Errors: kUsage.
Ends parse_ends(std::span<const std::string> words);

}  // namespace rlreplay::bisect

#pragma once

#include <functional>
#include <span>
#include <string>

namespace rlreplay::bisect {

/// What lies between the two ends of a search.
enum class Axis { kRevisions, kDumps, kConfigurations };

/// The two ends of a search in the user's words: revisions, folders of dumps, or settings.
struct Ends {
  Axis axis = Axis::kRevisions;
  std::string good, bad;
};

/// Reads `GOOD..BAD` or `GOOD BAD`: two folders are dumps, two files of settings or texts with `=`
/// that are no names of revisions configurations, anything else revisions. An end that is left out
/// is HEAD.
/// Errors: kUsage; kIncomplete where a folder is to be compared with one that is not there.
[[nodiscard]] Ends parse_ends(std::span<const std::string> words,
                              const std::function<bool(const std::string&)>& is_revision);

}  // namespace rlreplay::bisect

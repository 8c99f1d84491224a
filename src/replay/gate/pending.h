#pragma once

#include <string>
#include <vector>

#include "src/replay/gate/golden.h"

namespace rlreplay::gate {

/// Where the candidate of a golden file lies until somebody accepts it: in the folder of git beside
/// the checkout that holds the file, or among the user's own files where there is none. Never in
/// the tree.
/// Errors: kEnvironment where the user has no home for them.
[[nodiscard]] std::string pending_path(const std::string& path);

/// Keeps what the last check of a file found as its candidate, which says of what `golden` it would
/// take the place. Errors: those of write; kEnvironment.
void keep_candidate(const std::string& path, const Golden& golden, Golden candidate);
/// Errors: kEnvironment.
void drop_candidate(const std::string& path);

enum class Pending { kNone, kCurrent, kStale };
/// kStale: the golden file is no longer what the candidate was compared with.
[[nodiscard]] Pending pending(const std::string& path);

/// Errors: those of read; kIncomplete for a stale one.
[[nodiscard]] Golden read_candidate(const std::string& path);

/// Golden files that are not there and have a candidate, in the folders of these files.
[[nodiscard]] std::vector<std::string> orphans(const std::vector<std::string>& files);

/// Whether this is a machine that only looks: CI is set, and neither empty, `0` nor `false`.
[[nodiscard]] bool in_ci();

}  // namespace rlreplay::gate

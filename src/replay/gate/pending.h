#pragma once

#include <string>
#include <vector>

#include "src/replay/gate/golden.h"

namespace rlreplay::gate {

/// Where the candidate of a golden file lies until somebody accepts it, never in the tree: in the
/// git folder of the checkout that holds the file, else among the user's own files.
/// Errors: kEnvironment where the user has no home for them.
[[nodiscard]] std::string pending_path(const std::string& path);

/// Keeps what the last check of a file found as its candidate, which says of what `golden` it would
/// take the place. Errors: those of write; kEnvironment.
void keep_candidate(const std::string& path, const Golden& golden, Golden candidate);

/// Removes the candidate of a golden file, if there is one. Errors: kEnvironment.
void drop_candidate(const std::string& path);

/// Keeps what the run of a golden file printed, beside where its candidate would lie, until
/// drop_log(). Returns where; empty where there is no place for it, and where CI is set.
[[nodiscard]] std::string keep_log(const std::string& path, const std::string& log);
void drop_log(const std::string& path);

/// Whether a golden file has a candidate, and whether it can still take the file's place.
enum class Pending { kNone, kCurrent, kStale };

/// The state of a file's candidate; kStale where the golden file is no longer what that was
/// compared with, or cannot be read.
[[nodiscard]] Pending pending(const std::string& path);

/// The candidate of a golden file. Errors: those of read; kIncomplete for a stale one.
[[nodiscard]] Golden read_candidate(const std::string& path);

/// Golden files that are not there and have a candidate, in the folders of these files.
[[nodiscard]] std::vector<std::string> orphans(const std::vector<std::string>& files);

/// Whether this is a machine that only looks: CI is set, and neither empty, `0` nor `false`.
[[nodiscard]] bool in_ci();

}  // namespace rlreplay::gate

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rlreplay {

/// "a folder", "a pipe", "a device"; empty for a regular file. `mode`: as stat has it.
[[nodiscard]] std::string_view special_kind(unsigned mode);

/// Holds `path` to be a regular file, or a link to one, so that opening it does not wait and
/// reading it ends. Errors: kIncomplete where there is nothing, a folder, a pipe or a device;
/// kEnvironment where the system refuses to say.
void check_regular_file(const std::string& path);

/// The whole content of a regular file. `what`: in a word or two, for errors ("a golden file").
/// Errors: as above; kCorrupt above `max_bytes`; kEnvironment where the system refuses to read.
[[nodiscard]] std::string read_file(const std::string& path, size_t max_bytes,
                                    const std::string& what);

/// The absolute path without links and a slash at its end, be anything there or not.
/// Errors: kEnvironment where it cannot be followed: a link that leads to itself.
[[nodiscard]] std::string plain_path(const std::string& path);

}  // namespace rlreplay

#pragma once

#include <string>

namespace rlreplay {

/// Takes the lock by which others know that who made a file or a folder is alive; it lasts until
/// the descriptor is closed. Returns false where another one just took it for left behind, and
/// removes it: make it anew. A file system without locks locks nothing, and nothing there is
/// removed.
[[nodiscard]] bool lock_own(int descriptor, const std::string& path);

/// Removes the files PATH.tmp-XXXXXXXXXXXXXXXX (hexadecimal digits) of this user that nobody has
/// locked and nobody has written for an hour: their writers were killed. Each of the two alone says
/// too little: some file systems keep locks to a host, and a writer may be at rest. What cannot be
/// locked, as a folder of NFS or a file that must not be written there, stays.
void remove_left_files(const std::string& path) noexcept;

/// Removes the folders PREFIX-XXXXXX in `parent`, likewise.
void remove_left_folders(const std::string& parent, const std::string& prefix) noexcept;

}  // namespace rlreplay

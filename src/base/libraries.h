#pragma once

#include <string>

namespace rlreplay {

/// The version of the library that hashes: `0.8.1`.
std::string xxhash_version();

}  // namespace rlreplay

#pragma once

#include <string>

namespace rlreplay {

/// Whether an fsync of a folder, which returned `result`, did what can be done: some file systems
/// cannot sync a folder and say EINVAL.
bool is_synced(int result);

/// Makes the names in a folder durable. Errors: kEnvironment.
void make_names_durable(const std::string& folder);

}  // namespace rlreplay

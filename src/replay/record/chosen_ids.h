#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace rlreplay::replay {

/// Refuses ids that were asked for and are not there. `what`: "sample"; `where`: the dump.
/// Errors: kUsage, with the first that is missing and all that are there.
void check_chosen(const std::string& what, const std::set<uint64_t>& asked,
                  const std::set<uint64_t>& there, const std::string& where);

}  // namespace rlreplay::replay

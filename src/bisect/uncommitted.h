#pragma once

#include <vector>

#include "src/bisect/git.h"

namespace rlreplay::bisect {

/// Tells on standard error that files of the checkout have changes which no revision has, where its
/// commit is an end of the search.
void warn_of_uncommitted(const Repository& repository, const std::vector<Revision>& history);

}  // namespace rlreplay::bisect

#pragma once

#include <string>
#include <vector>

#include "src/bisect/git.h"

namespace rlreplay::bisect {

/// What fills a checkout beside the trees of its revision, as a text: which clones of submodules
/// the user has, and the filters, line ends, attributes and sparse paths of the user's git. Of
/// submodules that git has not cloned itself those that `ends` have count.
/// Errors: kEnvironment, kInterrupted.
[[nodiscard]] std::string checkout_settings(const Repository& repository,
                                            const std::vector<Revision>& ends);

}  // namespace rlreplay::bisect

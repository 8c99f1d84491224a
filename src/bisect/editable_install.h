#pragma once

#include <string>

#include "src/bisect/git.h"

namespace rlreplay::bisect {

/// What makes the python3 of PATH import modules from the user's checkout, whatever revision is
/// run: an entry of its path, or a file of an editable install. Empty where nothing does, or there
/// is no python3.
[[nodiscard]] std::string find_editable_install(const Repository& repository);

/// Tells on standard error what find_editable_install has found; nothing where it found nothing.
void warn_of_editable_install(const Repository& repository);

}  // namespace rlreplay::bisect

#pragma once

#include <string>

/// Which program this is.
namespace rlreplay {

/// The commit of the sources, or "unknown" where they were no git checkout.
extern const char* const kRevision;

/// Whether files of the checkout were not as committed.
extern const bool kModified;

/// `0.1.0`
[[nodiscard]] std::string program_version();

/// `0.1.0 (0751242ab1c2, modified)`
[[nodiscard]] std::string program_version_line();

/// `GNU 12.2.0, Release`
[[nodiscard]] std::string compiler();

}  // namespace rlreplay

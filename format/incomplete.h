#pragma once

#include <string>

#include "format/folder.h"
#include "format/system.h"

namespace rlreplay::format {

/// There until a dump is sealed: who writes it, and what made the run.
inline constexpr char kIncompleteName[] = "INCOMPLETE";

/// Checks that the name INCOMPLETE is free or a regular file's, before that is written or removed.
/// Errors: FormatError kFileType.
void check_incomplete(const Folder& folder);

/// `unstable`: as a manifest's, canonical JSON.
void write_incomplete(const Folder& folder, const std::string& unstable, System& system);

/// The `unstable` that the writer left, as canonical JSON; `{}` where it left none or the file is
/// absent or empty.
/// Errors: FormatError kFileType, kFileSize, and of records kRecordSyntax to kSchema.
[[nodiscard]] std::string read_incomplete(const Folder& folder);

/// What read_incomplete returns, for whoever can do without: `{}` where the file cannot be read or
/// breaks a rule.
[[nodiscard]] std::string find_incomplete(const Folder& folder);

}  // namespace rlreplay::format

#pragma once

#include <map>
#include <optional>
#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// Every option of a dump's run as it works out, by name, whether or not it was given; empty for a
/// dump that says nothing of them. Errors: kCorrupt for a `meta` that is no JSON.
[[nodiscard]] std::map<std::string, std::string> run_options(const std::string& meta,
                                                             const std::string& where);

/// What a dump says of its run that is part of its content, by name: options that can change bits
/// and have not their default, the model and the numeric contract (format/SPEC.md section 7).
[[nodiscard]] std::map<std::string, std::string> content_options(const std::string& meta,
                                                                 const std::string& where);

/// The content root: equal for runs that computed the same, wherever and however they ran, and for
/// dumps that hold the same, however they are stored. Of an unfinished dump that of what is whole.
/// Reads only units that do not say what they hold. Errors: FormatError.
[[nodiscard]] Hash content_root(const format::DumpReader& dump);

/// The content root by records alone; nothing where a group lies in several units, or its record
/// does not say what it holds.
[[nodiscard]] std::optional<Hash> recorded_content_root(const format::DumpReader& dump);

/// The content root of the dump in a folder. Errors: as of DumpReader::open; FormatError.
[[nodiscard]] Hash content_root(const std::string& path);

}  // namespace rlreplay::replay

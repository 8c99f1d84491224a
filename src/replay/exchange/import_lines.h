#pragma once

#include "src/replay/exchange/imported_dump.h"

namespace rlreplay::replay {

/// Reads a run from the one JSONL file that `paths` names into a dump.
/// Errors: kUsage for several files; kIncomplete where a step lacks a rank that others have; those
/// of JsonlFile.
void import_lines(const std::vector<std::string>& paths, const ImportProgress& progress,
                  ImportedDump& dump);

}  // namespace rlreplay::replay

#pragma once

#include <string>
#include <vector>

#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {

/// Why a record is not a whole one: it was not sealed, its writer died, steps or rollouts are
/// missing between those that are there, or fewer are there than the run had planned. One line for
/// people, without the dump's name; empty for a whole record.
[[nodiscard]] std::string incomplete_text(const RecordedRun& run);

/// The writers whose journals have no end, sorted: of a sealed dump, those that died.
[[nodiscard]] std::vector<std::string> unended_writers(const format::DumpReader& dump);

/// The first of them by name, "writers 1, 2 and 7 more", where the dump has several writers; empty
/// where it has one, or all have ended.
[[nodiscard]] std::string unended_text(const format::DumpReader& dump);

/// `incomplete_text` as it is printed before a verdict, and what an import found to contradict
/// itself. `dump`: as the user named it.
[[nodiscard]] std::string incomplete_line(const RecordedRun& run, const std::string& dump);

}  // namespace rlreplay::replay

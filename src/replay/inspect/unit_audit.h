#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/foreign/tree_check.h"
#include "src/replay/record/dump_meta.h"

/// Which units a dump has, against those that it should have.
namespace rlreplay::replay {

/// The ranks that hold a part of each group of training data.
[[nodiscard]] std::map<std::string, std::set<int64_t>> ranks_by_group(
    const format::DumpReader& dump);

/// The options and the model that the dump says; nothing where it says none. Errors: kCorrupt.
[[nodiscard]] std::optional<RecordedConfig> recorded_config(const format::DumpReader& dump);

/// What the units of a sealed dump say of each other, from its records alone: rank-missing (a step
/// that not all ranks hold), step-missing (a gap between a rollout's steps), plan-missing, and of
/// an imported dump what check_rollouts finds.
[[nodiscard]] std::vector<foreign::Problem> audit_records(const format::DumpReader& dump);

/// Rollouts between others of which a dump has nothing, as find_rollout_gaps names them.
[[nodiscard]] std::vector<std::string> rollout_gap_notes(const format::DumpReader& dump);

}  // namespace rlreplay::replay

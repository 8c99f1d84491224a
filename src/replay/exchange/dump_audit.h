#pragma once

#include <vector>

#include "format/dump_reader.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// What the units of a sealed dump say of each other, from its records alone: rank-missing (a step
/// that not all ranks hold), step-missing (a gap between a rollout's steps).
std::vector<foreign::Problem> audit_records(const format::DumpReader& dump);

/// And from its values: sample-unknown (a step trains on a sample that its rollout does not have),
/// length-mismatch, token-mismatch, bad-mask, non-finite and bad-log-prob (of tokens with loss mask
/// 1), replica-mismatch (ranks that hold the same sample and differ). At most 100.
/// Errors: FormatError where a unit is not sound.
std::vector<foreign::Problem> audit_values(const format::DumpReader& dump);

}  // namespace rlreplay::replay

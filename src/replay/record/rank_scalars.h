#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/sample_columns.h"

/// The scalars of a step that several ranks recorded: a rank's are its own, and ranks may say other
/// numbers (format/SPEC.md, train).
namespace rlreplay::replay {

/// As one table: NAME where all ranks that recorded it agree, else NAME@RANK of each.
format::NamedColumns join_scalars(
    const std::vector<std::pair<int64_t, format::NamedColumns>>& by_rank);

/// "pg_loss@0 -1, pg_loss@1 999": the numbers named so, of NAME alone where there is one.
std::string numbers_by_rank(const format::NamedColumns& joined, std::string_view name = {});

}  // namespace rlreplay::replay

#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/dump_reader.h"
#include "format/rollout_data.h"

/// Datasets of a rollout that samples of slime have no field for (own_datasets.h).
namespace rlreplay::replay {

/// The units of a rollout that say more of it than events.
[[nodiscard]] std::vector<const format::UnitReader*> units_beside_events(
    std::span<const format::UnitReader> units, const std::string& group);

/// Events, calls, roles and what no column of `data`, which is all of the rollout, is read from.
/// `units`: all that hold something of it. They own their bytes.
/// Errors: kUnsupported for a dataset of which nobody knows how those of several units are one.
[[nodiscard]] std::vector<format::Dataset> own_datasets_of(
    const format::DumpReader& dump, std::span<const format::UnitReader> units,
    const std::string& group, const std::shared_ptr<const format::RolloutData>& data);

/// What an import makes of samples of slime and of these datasets. Leaves in `data`, which the
/// result views, what the samples say.
[[nodiscard]] std::vector<format::Dataset> imported_datasets(
    const std::shared_ptr<format::RolloutData>& data, const std::string& group,
    std::span<const format::Dataset> own);

}  // namespace rlreplay::replay

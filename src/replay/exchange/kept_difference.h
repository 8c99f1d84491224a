#pragma once

#include <cstdint>
#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// Where the foreign files differ that a unit of two dumps keeps, and what each says there:
/// "rollout_data.truncated[2]: 0, in B 1". Empty where no field does, or either cannot be restored.
std::string kept_difference(const format::DumpReader& a, const format::DumpReader& b,
                            const std::string& unit);

/// The foreign file of training data that a sample is of, and its rank:
/// "train_data/0_1.pt (rank 1)". Empty where the dump keeps none.
std::string kept_shard(const format::DumpReader& dump, int64_t rollout, uint64_t sample);

}  // namespace rlreplay::replay

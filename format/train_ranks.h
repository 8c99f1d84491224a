#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/held_bytes.h"
#include "format/train_data.h"
#include "src/base/hash.h"

/// What the ranks of a step hold, samples of which several ranks hold slices being put together.
namespace rlreplay::format {

/// What the unit of one rank holds of a step.
struct TrainRank {
  TrainData data;
  const UnitRecord* unit = nullptr;
  Hash samples;       // which samples and slices it holds, in whatever order
  uint64_t held = 0;  // bytes of `data`
};

/// Puts the samples together of which ranks hold slices: they stand whole in the data of the first
/// of these ranks, in the order in which ranks name them, and in no other's; `scalars` stay where
/// they are. `micro_batch` is there where all of these ranks hold the same samples.
/// Errors: FormatError kMeaning for a token that no rank holds, or of which two ranks say different
/// things, naming both; kDataLimit.
void join_slices(std::vector<TrainRank>& ranks, const std::string& group, HeldBytes& held);

/// The ranks of a step that hold more than events, in order, the samples joined of which several
/// hold slices. Errors: FormatError.
[[nodiscard]] std::vector<TrainRank> read_train_ranks(const DumpReader& dump,
                                                      const std::string& group, HeldBytes& held);

/// The data of one of them. The others are read too where it holds slices.
[[nodiscard]] TrainData read_train_rank(const DumpReader& dump, const UnitReader& unit,
                                        const std::string& group, HeldBytes& held);

/// What all ranks of a step hold, as one would: each sample once and whole, in the order in which
/// ranks name them, and of `scalars` those that no rank contradicts.
/// Errors: as join_slices, of samples that several ranks hold whole too.
[[nodiscard]] TrainData join_whole(std::vector<TrainRank> ranks, const std::string& group,
                                   HeldBytes& held);
[[nodiscard]] TrainData read_whole_train(const DumpReader& dump, const std::string& group,
                                         HeldBytes& held);

}  // namespace rlreplay::format

#pragma once

#include <span>
#include <string>

#include "format/dump_reader.h"
#include "format/rollout_data.h"

namespace rlreplay::format {

/// One rollout of the parts that several units hold, its samples by ascending id. What a part did
/// not record its samples lack; lengths of prompts, starts of versions and experts, which have no
/// word for that, all parts must have or none. `where` names the rollout in errors.
/// Errors: FormatError kMeaning, also where two parts hold one sample.
[[nodiscard]] RolloutData join_rollout(std::span<const RolloutData> parts,
                                       const std::string& where);

/// Checks that no sample stands in two units of a rollout, for whoever takes them one by one.
/// Errors: FormatError kMeaning, those of GroupReader.
void check_samples_once(const DumpReader& dump, const std::string& group);

}  // namespace rlreplay::format

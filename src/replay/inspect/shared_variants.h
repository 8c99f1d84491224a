#pragma once

#include <string>
#include <vector>

#include "src/replay/inspect/objective_variants.h"

/// Variants of advantages and of losses alike, added to `out`.
namespace rlreplay::replay {

[[nodiscard]] bool is_slime(const ObjectiveSetting& from);

/// The other value of a flag.
void add_flag(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
              bool RunOptions::*flag, const std::string& name, const std::string& reason = {});

/// The sampler's log-probabilities as the old ones, which leaves nothing for TIS to weigh.
void add_rollout_logprobs(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
                          const std::string& reason = {});

/// A coefficient that is none.
void add_zero(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
              double RunOptions::*field, const std::string& name);

void add_dialect(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
                 const std::string& reason);

/// Frameworks take a masked token into every sum, times 0. `first` that is not finite, if any.
void add_masked_nan(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
                    const std::string& first);

}  // namespace rlreplay::replay

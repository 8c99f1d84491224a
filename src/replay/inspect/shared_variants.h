#pragma once

#include <string>
#include <vector>

#include "src/replay/inspect/objective_variants.h"

/// Variants of advantages and of losses alike, added to `out`.
namespace rlreplay::replay {

/// Whether the dialect is slime's; else it is Miles'.
[[nodiscard]] bool is_slime(const ObjectiveSetting& from);

/// Adds the setting with the other value of a flag; `name` is the flag's, with its dashes.
void add_flag(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
              bool RunOptions::*flag, const std::string& name, const std::string& reason = {});

/// Adds the other value of --use-rollout-logprobs. Where that takes the sampler's log-probabilities
/// for the old ones, it goes without TIS, which weighs the one against the other.
void add_rollout_logprobs(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
                          const std::string& reason = {});

/// Adds a coefficient of 0; nothing where it is 0 already.
void add_zero(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
              double RunOptions::*field, const std::string& name);

/// Adds the other of the two dialects.
void add_dialect(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
                 const std::string& reason);

/// Adds masked_nan: frameworks take a masked token into every sum, times 0. `first`: the first such
/// token that is not finite, with which the reason begins; nothing is added where it is empty.
void add_masked_nan(std::vector<ObjectiveVariant>& out, const ObjectiveSetting& from,
                    const std::string& first);

}  // namespace rlreplay::replay

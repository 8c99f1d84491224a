#pragma once

#include <optional>
#include <string>

#include "format/foreign/tree.h"

namespace rlreplay::foreign {

/// What a file of torch.save is to a trainer, judged by its content.
enum class DumpKind {
  kNone,          // something else
  kRollout,       // {rollout_id, samples: [{tokens, response_length, ...}]}
  kTrainRank,     // {rollout_id, rank, rollout_data: {column: [value of each sample]}}
  kTrainSamples,  // {rollout_id, rank, samples: [{tokens, response_lengths, ...}]}
  kPolicyLoss,    // {rank, call, samples, ppo_kl, pg_loss}
};

/// The kind of the dump at `root`, by the keys of its dict. Its values are not checked.
[[nodiscard]] DumpKind dump_kind(const Tree& tree, Value root);

/// What is wrong with the version that a dump says it has; nothing where this program reads it.
[[nodiscard]] std::optional<std::string> unknown_version(const Tree& tree, Value root);

}  // namespace rlreplay::foreign

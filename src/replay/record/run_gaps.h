#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "format/foreign/tree_check.h"
#include "format/rollout_data.h"

/// What is missing between the rollouts and steps of a run that are there.
namespace rlreplay::replay {

/// Which rollouts of a run have their samples, and which have steps, against each other:
/// step-missing (of a rollout before the last that was trained on), sample-unknown (steps of a
/// rollout that is not there, though others are).
[[nodiscard]] std::vector<foreign::Problem> check_rollouts(const std::set<int64_t>& generated,
                                                           const std::set<int64_t>& trained);

/// What of a run's rollouts and steps nothing was there to be held against, and no check_rollouts
/// names: rollout-untrained (rollouts behind the last that was trained on), rollouts-absent (steps,
/// and no rollout at all).
[[nodiscard]] std::vector<foreign::Problem> find_unheld(const std::set<int64_t>& generated,
                                                        const std::set<int64_t>& trained);

/// The rollouts between others of which there is nothing: rollouts-between.
[[nodiscard]] std::vector<foreign::Problem> find_rollout_gaps(const std::set<int64_t>& generated,
                                                              const std::set<int64_t>& trained);

/// The ids of samples that were not taken out of training.
[[nodiscard]] std::vector<uint64_t> kept_samples(const format::RolloutData& data);

/// Says which samples of a rollout no step trains on, of `kept`, those that were not taken out;
/// empty where there are none. `trained`: in any order.
[[nodiscard]] std::string untrained_samples(int64_t rollout, const std::vector<uint64_t>& kept,
                                            std::vector<uint64_t> trained);

/// The steps of each rollout: step-missing where one between two is not there.
[[nodiscard]] std::vector<foreign::Problem> find_step_gaps(
    const std::map<int64_t, std::set<int64_t>>& steps);

}  // namespace rlreplay::replay

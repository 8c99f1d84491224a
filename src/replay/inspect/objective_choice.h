#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/replay/inspect/objective_check.h"

/// Which of the explanations that were found is named: each is held against every number and step.
namespace rlreplay::replay {

/// Whether an explanation of another step holds for a step whose quantities are `from` with the
/// given setting and `now` with the explanation's: it breaks nothing, and what it reproduces there
/// it reproduces here.
[[nodiscard]] bool holds(const Explanation& explanation, const std::vector<Quantity>& from,
                         const std::vector<Quantity>& now);

/// `of_losses` explains a step's losses. Its other quantities are `from` as recorded options give
/// them and `now` with this explanation. Where it reproduces all of them that one of `explained`
/// reproduces, it becomes a rival of that one: one option then explains all.
void add_rival(const Explanation& of_losses, const std::vector<Quantity>& from,
               const std::vector<Quantity>& now, std::vector<Explanation>& explained);

/// Counts a step for or against an explanation, by what it is said to reproduce, and what it mends
/// of all that the step recorded.
void count_evidence(const std::vector<Quantity>& from, const std::vector<Quantity>& now,
                    Explanation& explanation);

/// Calls `take` with each explanation of each step, then with its rivals.
void for_each_explanation(std::vector<ObjectiveStep>& steps,
                          const std::function<void(Explanation&)>& take);

/// Chooses among each explanation, its rivals and those of other steps that hold in its step and
/// explain as much of it the one that holds in most steps, and of those the one that mends most in
/// all of them. It takes the explanation's place; what fits by chance is left out.
void choose_explanations(std::vector<ObjectiveStep>& steps);

}  // namespace rlreplay::replay

#pragma once

#include <string_view>

namespace rlreplay::replay {

/// A value a token in slime's train dumps, under slime's name and ours.
struct SlimeColumn {
  std::string_view theirs, ours;
  bool written = true;  // by an export too
};

// The trainer's log_probs are those before the first update with this rollout.
inline constexpr SlimeColumn kSlimeColumns[] = {{"tokens", "tokens", false},
                                                {"loss_masks", "loss_mask"},
                                                {"rollout_log_probs", "rollout_log_probs"},
                                                {"log_probs", "old_log_probs"},
                                                {"ref_log_probs", "ref_log_probs"},
                                                {"teacher_log_probs", "teacher_log_probs"},
                                                {"entropy", "entropy"},
                                                {"ref_entropy", "ref_entropy"},
                                                {"values", "values"},
                                                {"returns", "returns"},
                                                {"advantages", "advantages"},
                                                {"kl", "kl"},
                                                {"opd_reverse_kl", "reverse_kl", false}};

}  // namespace rlreplay::replay

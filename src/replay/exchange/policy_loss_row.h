#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/foreign/torch_file.h"

namespace rlreplay::replay {

/// What a file of Miles' policy_loss_debug says of one sample of a micro-batch. Source: Miles,
/// maybe_dump_policy_loss_debug.
struct PolicyLossRow {
  size_t total = 0;     // length of the sample
  size_t response = 0;  // of its response; `old` is shorter where it is a slice
  std::vector<float> old, current, policy_kl, policy_loss;
  std::vector<float> advantages, mask, sampled;        // empty where the file has none
  std::optional<int64_t> index;                        // in its micro-batch
  std::optional<int64_t> group_index, index_in_group;  // of the sample, in later files
  int64_t rank = 0;
  std::string file;  // its name in the run
  size_t place = 0;  // in the file

  [[nodiscard]] bool is_slice() const { return old.size() != response; }
};

/// The columns of a row by their names in the file.
struct PolicyLossColumn {
  std::string_view name;
  std::vector<float> PolicyLossRow::*column;
};
inline constexpr auto kPolicyLossColumns = std::to_array<PolicyLossColumn>({
    {"advantages", &PolicyLossRow::advantages},
    {"local_loss_mask", &PolicyLossRow::mask},
    {"rollout_log_probs", &PolicyLossRow::sampled},
    {"old_log_probs", &PolicyLossRow::old},
    {"train_log_probs", &PolicyLossRow::current},
    {"ppo_kl", &PolicyLossRow::policy_kl},
    {"pg_loss", &PolicyLossRow::policy_loss},
});

/// The rows of a file, in its order. `name`: the file's in its run.
/// Errors: kCorrupt where the file does not say its rank or call, and, naming the row, where a
/// value of each token has another length than the others; also where the terms of all rows are
/// more or fewer than their tokens.
[[nodiscard]] std::vector<PolicyLossRow> read_policy_loss(const foreign::TorchFile& file,
                                                          const std::string& name);

/// The first place where two of one length are not the same.
[[nodiscard]] std::optional<size_t> first_other(const std::vector<float>& a,
                                                const std::vector<float>& b);

/// The first number of a row's mask that is neither 0 nor 1, a text; nothing where there is none.
[[nodiscard]] std::optional<std::string> odd_mask(const PolicyLossRow& row);

/// What the file's `finite` says otherwise than its numbers, whose rows these are, a text each.
[[nodiscard]] std::vector<std::string> untrue_flags(const foreign::TorchFile& file,
                                                    std::span<const PolicyLossRow> rows);

}  // namespace rlreplay::replay

#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "src/task/reward.h"

namespace rlreplay {

/// A program of the user judges. It is started once a batch, by a shell, and gets a line a query,
///   {"prompt": "...", "response": "...", "label": "..." or null}
/// and writes a finite number a line, in the same order, then exits with code 0.
class CommandReward : public Reward {
 public:
  CommandReward(std::string command, std::chrono::milliseconds time_limit)
      : command_(std::move(command)), time_limit_(time_limit) {}

  std::vector<double> score(std::span<const RewardQuery> queries) const override;
  [[nodiscard]] bool runs_command() const override { return true; }

 private:
  [[nodiscard]] std::vector<double> parse(std::string_view output, size_t count) const;

  std::string command_;
  std::chrono::milliseconds time_limit_;
};

}  // namespace rlreplay

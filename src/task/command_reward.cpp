#include "src/task/command_reward.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/number_text.h"
#include "src/base/process.h"
#include "src/base/redact.h"

namespace rlreplay {
namespace {

constexpr size_t kMaxLine = 256;  // of the answer

std::string line_of(const RewardQuery& query) {
  return "{\"prompt\": " + json_quoted(query.prompt) +
         ", \"response\": " + json_quoted(query.response) +
         ", \"label\": " + (query.label ? json_quoted(*query.label) : "null") + "}\n";
}

/// A line that is one number, with white space around it at most.
bool read_number(std::string_view line, double& number) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == line.npos) return false;
  line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
  if (line.starts_with('+')) line.remove_prefix(1);
  const auto value = parse_number<double>(line);
  number = value.value_or(0);
  return value && std::isfinite(number);
}

std::string shown(std::string_view line) {
  std::string text(line.substr(0, 80));
  for (char& c : text) c = c < ' ' || c > '~' ? '?' : c;
  return '"' + text + '"';
}

}  // namespace

std::vector<double> CommandReward::parse(std::string_view output, size_t count) const {
  std::vector<double> rewards;
  for (size_t at = 0; at < output.size();) {
    const size_t end = std::min(output.find('\n', at), output.size());
    const std::string_view line = output.substr(at, end - at);
    double number = 0;
    if (!read_number(line, number)) {
      throw Error(ErrorCode::kCorrupt,
                  "the reward command must answer a finite number a line; line " +
                      std::to_string(rewards.size() + 1) + " is " + shown(line),
                  redacted_command(command_));
    }
    rewards.push_back(number);
    at = end + 1;
  }
  if (rewards.size() != count) {
    throw Error(ErrorCode::kCorrupt,
                "the reward command answered " + std::to_string(rewards.size()) + " numbers for " +
                    std::to_string(count) + " responses",
                redacted_command(command_));
  }
  return rewards;
}

std::vector<double> CommandReward::score(std::span<const RewardQuery> queries) const {
  if (queries.empty()) return {};
  std::string input;
  for (const auto& query : queries) input += line_of(query);
  const ProcessLimits limits{time_limit_, kMaxLine * (queries.size() + 16)};
  const auto result = run_process(shell_command(command_), input, limits);
  if (result.end == ProcessResult::End::kTooMuchOutput) {
    throw Error(ErrorCode::kCorrupt,
                "the reward command must answer a number a line, and wrote far more",
                redacted_command(command_));
  }
  if (!result.succeeded()) {
    const bool late = result.end == ProcessResult::End::kTimeout;
    throw Error(ErrorCode::kEnvironment,
                "the reward command " + result.describe() +
                    (late ? " (--reward-time-limit, seconds for the samples of a rollout)" : ""),
                redacted_command(command_));
  }
  return parse(result.output, queries.size());
}

}  // namespace rlreplay

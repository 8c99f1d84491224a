#include "src/task/reward.h"

#include "src/base/error.h"
#include "src/task/command_reward.h"
#include "src/task/final_number.h"

namespace rlreplay {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string_view label_of(const RewardQuery& query, const char* kind) {
  if (!query.label) {
    throw Error(ErrorCode::kCorrupt,
                std::string("the reward ") + kind +
                    " compares with a label, and this prompt has none; name its key with "
                    "--label-key",
                std::string(query.where));
  }
  return *query.label;
}

class ExactReward : public Reward {
 public:
  std::vector<double> score(std::span<const RewardQuery> queries) const override {
    std::vector<double> rewards;
    for (const auto& query : queries) {
      const bool equal = trimmed(query.response) == trimmed(label_of(query, "exact"));
      rewards.push_back(equal ? 1 : 0);
    }
    return rewards;
  }
};

class Gsm8kReward : public Reward {
 public:
  std::vector<double> score(std::span<const RewardQuery> queries) const override {
    std::vector<double> rewards;
    for (const auto& query : queries) {
      const auto wanted = final_number(label_of(query, "gsm8k"));
      if (!wanted) {
        throw Error(ErrorCode::kCorrupt,
                    "the reward gsm8k compares numbers, and this prompt's label holds none",
                    std::string(query.where));
      }
      const auto given = final_number(query.response);
      rewards.push_back(given && *given == *wanted ? 1 : 0);
    }
    return rewards;
  }
};

}  // namespace

RewardOptions::Kind reward_kind(std::string_view name) {
  if (name == "exact") return RewardOptions::Kind::kExact;
  if (name == "gsm8k") return RewardOptions::Kind::kGsm8k;
  if (name == "command") return RewardOptions::Kind::kCommand;
  throw Error(ErrorCode::kUsage, "there is no reward \"" + std::string(name) +
                                     "\"; exact, gsm8k and command are known");
}

std::unique_ptr<Reward> make_reward(const RewardOptions& options) {
  switch (options.kind) {
    case RewardOptions::Kind::kExact:
      return std::make_unique<ExactReward>();
    case RewardOptions::Kind::kGsm8k:
      return std::make_unique<Gsm8kReward>();
    case RewardOptions::Kind::kCommand:
      break;
  }
  if (options.command.empty()) {
    throw Error(ErrorCode::kUsage, "the reward command needs the command to run");
  }
  return std::make_unique<CommandReward>(options.command, options.time_limit);
}

}  // namespace rlreplay

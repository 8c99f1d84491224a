#include "src/replay/run/run_task.h"

#include <algorithm>
#include <chrono>

namespace rlreplay::replay {
namespace {

RewardOptions reward_options(const RunOptions& options) {
  RewardOptions out;
  out.kind = reward_kind(options.reward);
  out.command = options.reward_command;
  out.time_limit =
      std::chrono::milliseconds(static_cast<int64_t>(options.reward_time_limit * 1000));
  return out;
}

}  // namespace

RunTask::RunTask(const RunOptions& options, const ModelSource& model)
    : groups_(static_cast<uint64_t>(options.rollout_batch_size)),
      samples_per_group_(static_cast<uint64_t>(options.n_samples_per_prompt)),
      tokenizer_(model.tokenizer()),
      prompts_(model.prompts(options, tokenizer_)),
      reward_(make_reward(reward_options(options))) {
  const int64_t steps = steps_per_rollout(options);
  try_reward(static_cast<uint64_t>((planned_steps(options) + steps - 1) / steps) * groups_);
}

void RunTask::try_reward(uint64_t used) const {
  // A command costs a start: it is tried once. Labels are looked at wherever the run will come.
  const uint64_t count = reward_->runs_command() ? 1 : std::min(prompts_->size(), used);
  for (uint64_t i = 0; i < count; ++i) {
    const TaskPrompt prompt = prompts_->prompt(i);
    const std::string response = prompt.label.value_or("");
    const RewardQuery query{prompt.text, response, prompt.label, prompt.where};
    reward_->score({&query, 1});
  }
}

std::vector<engine::Request> RunTask::requests(int64_t id) const {
  std::vector<engine::Request> out;
  for (uint64_t i = 0; i < groups_; ++i) {
    const uint64_t group = static_cast<uint64_t>(id) * groups_ + i;
    const TaskPrompt prompt = prompts_->prompt(group);
    for (uint64_t n = 0; n < samples_per_group_; ++n) {
      out.push_back({group * samples_per_group_ + n, group, prompt.ids});
    }
  }
  return out;
}

RolloutBatch RunTask::judge(int64_t id, std::vector<Sample> samples) const {
  RolloutBatch out;
  out.id = id;
  out.samples = std::move(samples);
  std::vector<RewardQuery> queries;
  for (const Sample& s : out.samples) {
    TaskPrompt prompt = prompts_->prompt(s.group);
    const std::span response = std::span(s.tokens).subspan(static_cast<size_t>(s.prompt_length));
    out.texts.push_back({std::move(prompt.text), tokenizer_.decode(response, ShowSpecial::kNo),
                         std::move(prompt.label), std::move(prompt.where)});
  }
  for (const RolloutBatch::Text& text : out.texts) {
    queries.push_back({text.prompt, text.response, text.label, text.where});
  }
  const std::vector<double> rewards = reward_->score(queries);
  for (size_t i = 0; i < rewards.size(); ++i) out.samples[i].reward = rewards[i];
  return out;
}

}  // namespace rlreplay::replay

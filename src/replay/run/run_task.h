#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/engine/rollout.h"
#include "src/replay/options/options.h"
#include "src/replay/source/model_source.h"
#include "src/replay/source/prompt_source.h"
#include "src/task/reward.h"

namespace rlreplay::replay {

/// One rollout: the samples, and what people and rewards read of each.
struct RolloutBatch {
  int64_t id = 0;
  std::vector<Sample> samples;
  struct Text {
    std::string prompt, response;
    std::optional<std::string> label;
    std::string where;  // of the prompt
  };
  std::vector<Text> texts{};
  std::vector<bool> stopped{};  // by a stop id of each; the others had no room for more
  int64_t version = 0;          // of the weights that generated: the optimizer steps taken before
};

/// What a run is about: prompts in, texts and rewards out.
class RunTask {
 public:
  /// Tries the reward before anything is generated: a command on one prompt, with its label for a
  /// response, any other on all prompts that the run will use.
  /// Errors: those of ModelSource::tokenizer, read_prompt_source, make_reward and Reward::score.
  RunTask(const RunOptions& options, const ModelSource& model);

  int64_t longest_prompt() const { return prompts_->longest(); }

  /// A request for every sample of rollout `id`; sample and group ids ascend over the whole run.
  std::vector<engine::Request> requests(int64_t id) const;

  /// Texts and rewards of generated samples. Errors: those of Reward::score.
  [[nodiscard]] RolloutBatch judge(int64_t id, std::vector<Sample> samples) const;

 private:
  void try_reward(uint64_t used) const;

  uint64_t groups_;  // of a rollout
  uint64_t samples_per_group_;
  Tokenizer tokenizer_;
  std::unique_ptr<PromptSource> prompts_;
  std::unique_ptr<Reward> reward_;
};

}  // namespace rlreplay::replay

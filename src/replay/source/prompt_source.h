#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/model_config.h"
#include "src/replay/options/options.h"
#include "src/task/chat.h"
#include "src/task/prompts.h"
#include "src/task/tokenizer.h"

namespace rlreplay::replay {

/// A prompt as the model and the reward see it.
struct TaskPrompt {
  std::vector<TokenId> ids;
  std::string text;
  std::optional<std::string> label;
  std::string where;  // path:line
};

/// The prompts of a run, in order; after the last one comes the first again.
class PromptSource {
 public:
  virtual ~PromptSource() = default;
  virtual TaskPrompt prompt(uint64_t index) const = 0;
  /// How many there are before the first one comes again; 0 where they do not.
  virtual uint64_t size() const { return 0; }
  /// A bound of the prompts' tokens.
  virtual int64_t longest() const = 0;
};

/// The prompts of --prompts, encoded by the model's tokenizer and chat template, which is asked for
/// where a prompt needs it.
/// Errors: kUsage where --prompts is missing; kUnsupported for a prompt that leaves the model no
/// position for a response, kCorrupt for an id outside the vocabulary, each naming path:line; those
/// of read_prompts and encode_prompt.
[[nodiscard]] std::unique_ptr<PromptSource> read_prompt_source(
    const RunOptions& options, const ModelConfig& model, const Tokenizer& tokenizer,
    const std::function<ChatTemplate()>& chat_template);

}  // namespace rlreplay::replay

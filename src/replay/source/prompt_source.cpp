#include "src/replay/source/prompt_source.h"

#include <algorithm>
#include <span>

#include "src/base/error.h"

namespace rlreplay::replay {
namespace {

class FilePrompts : public PromptSource {
 public:
  explicit FilePrompts(std::vector<TaskPrompt> prompts) : prompts_(std::move(prompts)) {}

  TaskPrompt prompt(uint64_t index) const override { return prompts_[index % prompts_.size()]; }
  uint64_t size() const override { return prompts_.size(); }
  int64_t longest() const override {
    size_t out = 0;
    for (const TaskPrompt& prompt : prompts_) out = std::max(out, prompt.ids.size());
    return static_cast<int64_t>(out);
  }

 private:
  std::vector<TaskPrompt> prompts_;
};

bool needs_template(const RunOptions& options, std::span<const Prompt> prompts) {
  return options.apply_chat_template ||
         std::any_of(prompts.begin(), prompts.end(), [](const Prompt& p) {
           return std::holds_alternative<std::vector<Message>>(p.input);
         });
}

void check_prompt(const TaskPrompt& prompt, const ModelConfig& model) {
  for (const TokenId id : prompt.ids) {
    if (id >= 0 && id < model.vocab) continue;
    throw Error(ErrorCode::kCorrupt,
                "token id " + std::to_string(id) + " is outside the model's vocabulary of " +
                    std::to_string(model.vocab),
                prompt.where);
  }
  if (static_cast<int64_t>(prompt.ids.size()) >= model.max_positions) {
    throw Error(ErrorCode::kUnsupported,
                "the prompt has " + std::to_string(prompt.ids.size()) +
                    " tokens, the model allows " + std::to_string(model.max_positions) +
                    " with the response: shorten it",
                prompt.where);
  }
}

}  // namespace

std::unique_ptr<PromptSource> read_prompt_source(
    const RunOptions& options, const ModelConfig& model, const Tokenizer& tokenizer,
    const std::function<ChatTemplate()>& chat_template) {
  if (options.prompts.empty()) {
    throw Error(ErrorCode::kUsage, "no prompts: give --prompts a JSONL file");
  }
  PromptOptions keys;
  keys.input_key = options.input_key;
  keys.label_key = options.label_key;
  const std::vector<Prompt> prompts = read_prompts(options.prompts, keys);
  std::optional<ChatTemplate> chat;
  if (needs_template(options, prompts)) chat = chat_template();
  PromptEncoding encoding;
  encoding.tokenizer = &tokenizer;
  encoding.chat = chat ? &*chat : nullptr;
  encoding.apply_chat_template = options.apply_chat_template;
  std::vector<TaskPrompt> out;
  for (const Prompt& prompt : prompts) {
    TaskPrompt& one = out.emplace_back();
    one.ids = encode_prompt(prompt, encoding);
    one.text = tokenizer.decode(one.ids);
    one.label = prompt.label;
    one.where = prompt.where;
    check_prompt(one, model);
  }
  return std::make_unique<FilePrompts>(std::move(out));
}

}  // namespace rlreplay::replay
